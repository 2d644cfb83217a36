"""Two shards, one filter worker, the query service and emulated hosts in two processes: all but the last, and that."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from acquisition import lifeline
from acquisition.errors import ShardpulseError, UnavailableError
from acquisition.link.resp import Address
from acquisition.shards.launch import start_shards
from acquisition.snapshot import SnapshotReader
from experiments.emulation.workload import host_name
from experiments.processes.control import Child, product, python

_READY_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
_LOOK_SECONDS = 0.25


class Pipeline:
    """Running parts, and what can be done to each; a context manager that ends them."""

    def __init__(self, directory: Path, hosts: int, shards: int = 2) -> None:
        self.hosts = hosts
        self.last_host = frozenset((host_name(hosts - 1),))
        self.config = directory / "shardpulse.toml"
        self.config.write_text("[serve]\nbind = '127.0.0.1:0'\n")
        self._stack = contextlib.ExitStack()
        self._shards = self._stack.enter_context(start_shards(shards, directory / "shards"))
        self.addresses: list[Address] = list(self._shards.addresses)
        self._stack.callback(lambda: [child.stop() for child in (self._filter, *self._probes)])
        self.start_filter()
        self._probes = [self._start(0, hosts - 1), self._start(hosts - 1, hosts)]
        self.port = self._serve()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait_until_all_current(self) -> None:
        """Raises UnavailableError when that takes too long."""
        deadline = time.monotonic() + _READY_SECONDS
        with SnapshotReader.connect([str(address) for address in self.addresses]) as reader:
            while True:
                with contextlib.suppress(ShardpulseError):
                    states = [block.state for block in reader.coherent().blocks]
                    if states == ["current"] * self.hosts:
                        return
                if time.monotonic() > deadline:
                    raise UnavailableError(f"not all of {self.hosts} hosts are current after {_READY_SECONDS:g} s")
                time.sleep(_LOOK_SECONDS)

    def start_filter(self) -> None:
        """Start the only worker."""
        self._filter = Child("filter", product("filter", self.config, self.addresses))

    def kill_filter(self) -> None:
        """End it at once, and wait for that."""
        self.signal_filter(signal.SIGKILL)
        self._filter.stop()

    def signal_filter(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self._filter.pid, number)

    def start_probes(self, last: bool = False) -> None:
        """Start the probes anew, or that of the ``last`` host."""
        if not last:
            self._probes[0] = self._start(0, self.hosts - 1)
        self._probes[1] = self._start(self.hosts - 1, self.hosts)

    def kill_probes(self, last: bool = False) -> None:
        """End them at once."""
        for child in self._probes[last:]:
            os.kill(child.pid, signal.SIGKILL)
            child.stop()

    def stop_probes(self) -> None:
        """End them in order."""
        self.tell_probes("stop")
        for child in self._probes:
            child.receive(_ANSWER_SECONDS)
            child.stop()

    def signal_probes(self, number: int) -> None:
        """Send them a signal."""
        for child in self._probes:
            os.kill(child.pid, number)

    def tell_probes(self, do: str) -> None:
        """Give them an order."""
        for child in self._probes:
            child.send({"do": do})

    def signal_shard(self, number: int) -> None:
        """Send the first shard a signal."""
        os.kill(self._shards.shards[0].pid, number)

    def revive(self) -> None:
        """Start shards that have ended."""
        self._shards.revive()

    def _start(self, first: int, last: int) -> Child:
        child = Child("probes", python("experiments.blindness.hosts"))
        shards = [str(address) for address in self.addresses]
        child.send({"shards": shards, "hosts": self.hosts, "first": first, "last": last})
        child.receive(_ANSWER_SECONDS)
        return child

    def _serve(self) -> int:
        command = product("serve", self.config, self.addresses)
        process = self._stack.enter_context(subprocess.Popen(lifeline.tied(command), stdout=subprocess.PIPE, text=True))
        self._stack.callback(process.terminate)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise UnavailableError("the service did not start")
        return int(line.rpartition(":")[2])
