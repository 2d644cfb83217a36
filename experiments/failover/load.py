"""Emulated hosts in this process: the product's writers, served in one loop, some of them elsewhere in a testbed."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Mapping, Sequence

from acquisition.errors import TemporaryError
from acquisition.link.resp import Address
from acquisition.model.ticks import tick_of
from experiments.emulation.emulated_host import Common, EmulatedHost, Held
from experiments.emulation.workload import Workload
from experiments.testbed import Host

#: An outbox can fill an empty shard again with all that a short run made.
_HELD = Held(frames=4096, seconds=600.0)
_POSITION_SECONDS = 0.25
_STATUS_SECONDS = 5.0


class Load:
    """One writer per index of ``hosts``; ``places`` are hosts of the testbed that some of them run on, by index
    (else: where this process is). ``made`` counts samples."""

    def __init__(
        self,
        workload: Workload,
        seeds: Sequence[Address],
        hosts: Sequence[int],
        places: Mapping[int, Host] | None = None,
    ) -> None:
        common = Common(workload)
        self.workload = workload
        self.made = 0
        self.sampling = True
        self.hosts = [
            EmulatedHost(common, index, list(seeds), _HELD, _POSITION_SECONDS, logged=True) for index in hosts
        ]
        self._places = dict(places or {})
        self._due = time.monotonic()

    def turn(self, longest: float) -> None:
        """Sample if it is time, serve every writer, wait at most ``longest`` seconds for their sockets."""
        now = time.monotonic()
        if self.sampling and now >= self._due:
            self._due = max(self._due + self.workload.interval, now)
            wall = time.time()
            for host in self.hosts:
                self.made += host.sample(tick_of(wall, self.workload.interval), wall, now)
        wake = now + longest
        if self.sampling:
            wake = min(wake, self._due)
        poll = select.poll()
        for host in self.hosts:
            place = self._places.get(host.index)
            with place.inside() if place is not None else contextlib.nullcontext():
                wake = min(wake, host.writer.service(time.monotonic()))
            if host.writer.fileno() >= 0:
                poll.register(host.writer.fileno(), host.writer.events())
        poll.poll(max(0.0, wake - time.monotonic()) * 1000.0)

    def run_for(self, seconds: float) -> None:
        """Work for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.turn(left)

    def run_until(self, done: Callable[[], object], seconds: float, what: str) -> None:
        """Work until ``done()``. Raises TemporaryError that says ``what`` did not happen within ``seconds``."""
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                problems = {host.writer.problem for host in self.hosts} - {""}
                raise TemporaryError(f"not within {seconds:g} s: {what}; {'; '.join(sorted(problems))}")
            self.turn(0.05)

    def settle(self, seconds: float) -> None:
        """Stop sampling and work until the filter has applied everything. Raises TemporaryError."""
        self.sampling = False
        self.run_until(lambda: not any(host.waiting() for host in self.hosts), seconds, "everything is applied")
        for host in self.hosts:
            place = self._places.get(host.index)
            with place.inside() if place is not None else contextlib.nullcontext():
                host.writer.drain(_STATUS_SECONDS)

    def logs(self) -> dict[int, list[float]]:
        """The monotonic times of all frames by host index: what the scalar model computes from."""
        return {host.index: list(host.log or ()) for host in self.hosts}

    def close(self) -> None:
        """Close all writers."""
        for host in self.hosts:
            host.writer.close()
