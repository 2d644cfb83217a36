"""Local probe: a real ``shardpulse probe`` beside the emulated hosts.

It watches processes of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from acquisition.errors import FrameError
from acquisition.link.cluster import Cluster
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.wire import keys, table
from acquisition.wire.layout import Layout
from experiments.processes.control import Child, product, python
from probes.metrics import PROCESSES

HOST = "long-run-probe"
_MARK = "experiments.long_run.reused_pids"
_START_SECONDS = 30.0


class Watched:
    """Identities seen so far by pid, read from the filter's table for the probe."""

    def __init__(self, cluster: Cluster, layout: Layout) -> None:
        number = host_id(HOST)
        self._cluster = cluster
        self._key = keys.names(layout.tag_of(number), number, resource_set_id(PROCESSES.name))
        self.epochs: dict[str, set[str]] = {}
        self.rows = 0

    def look(self) -> None:
        """Read the names of the probe's processes."""
        data = self._cluster.call(self._key, "GET", self._key)
        if data is None:
            return
        with contextlib.suppress(FrameError):
            entities = table.decode(data).entities
            self.rows = len(entities)
            for entity in entities:
                self.epochs.setdefault(entity.stable, set()).add(entity.epoch)

    @property
    def reused(self) -> int:
        """Pids seen with more than one identity."""
        return sum(len(epochs) > 1 for epochs in self.epochs.values())


@contextlib.contextmanager
def load(count: int, period: float, directory: Path) -> Iterator[Child]:
    """``count`` processes, one of them replaced every ``period`` seconds."""
    with Child("processes with reused pids", python(_MARK, str(count), str(directory), str(period))) as child:
        child.receive(_START_SECONDS)
        yield child


@contextlib.contextmanager
def running(addresses: Sequence[str], directory: Path) -> Iterator[Child]:
    """The probe, watching this machine and the processes of ``load`` in the same directory."""
    config = directory / "probe.toml"
    ring = Path(f"/dev/shm/shardpulse-long-run-{os.getpid()}.ring")
    pattern = json.dumps(f"{re.escape(_MARK)} [0-9]+ {re.escape(str(directory))} ")
    config.write_text(
        f'[host]\nname = "{HOST}"\n[probe]\nring_path = "{ring}"\n'
        f'[probe.host]\nsource = "procfs"\n[probe.processes]\nsource = "procfs"\n'
        f"commands = [{pattern}]\ndaemons = false\n"
        "[probe.vms]\nenabled = false\n"
    )
    with contextlib.ExitStack() as stack:
        stack.callback(ring.unlink, missing_ok=True)
        yield stack.enter_context(Child("probe", product("probe", config, addresses)))
