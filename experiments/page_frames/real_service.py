"""A real service over a real data center of hosts without VMs: shards, filter, hosts' own figures at 1 Hz."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from experiments.emulation.host_figures import host_figures
from experiments.harness import pipeline
from experiments.harness.options import Options
from experiments.harness.service import serving

_FILLED_SECONDS = 45.0  #: the windows of the rules must be full
_HOT_EVERY = 20


@contextlib.contextmanager
def real_service(hosts: int, seed: int) -> Iterator[str]:
    """Where the page of so many hosts is; one in twenty is hot. Raises ShardpulseError when a part does not start."""
    options = Options(hosts=1, entities=1, metrics=1, watched=1)  # the emulated VMs are not started
    with tempfile.TemporaryDirectory(prefix="shardpulse-page-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        parts = stack.enter_context(pipeline.running(options, directory))
        stack.enter_context(host_figures(parts.shards.addresses, hosts, hosts // _HOT_EVERY, seed))
        core = max(os.sched_getaffinity(0))
        service = stack.enter_context(serving(parts.shards.addresses, directory, core))
        parts.run(_FILLED_SECONDS)
        service.wait_for(hosts, hosts // _HOT_EVERY)
        yield service.url("/")
