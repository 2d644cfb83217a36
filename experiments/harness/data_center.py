"""Hosts whose own figures make rules judge, and a service over them: the data center that readers and pages look at."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from experiments.processes.control import Child, python

_ANSWER_SECONDS = 60.0


@contextlib.contextmanager
def host_figures(shards: Sequence[object], hosts: int, hot: int, seed: int) -> Iterator[Child]:
    """Every host's own figures once a second until the end of the block, or until the order ``stop`` is answered;
    ``hot`` of the hosts are overloaded all the time."""
    with Child("host figures", python("experiments.emulation.host_figures")) as child:
        child.send({"shards": [str(shard) for shard in shards], "hosts": hosts, "hot": hot, "seed": seed})
        child.receive(_ANSWER_SECONDS)
        yield child
