"""Failover load: emulated hosts in one process, some elsewhere in a testbed.

They use the product's writers, served in one loop.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter

from acquisition.errors import TemporaryError
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from acquisition.model.ticks import tick_of
from experiments.emulation.emulated_host import Common, EmulatedHost, Held
from experiments.emulation.fleet import Fleet
from experiments.emulation.workload import Workload
from experiments.testbed import Host

#: An outbox can refill an empty shard with all frames of a short run.
_HELD = Held(frames=4096, seconds=600.0)
_NEVER = 3600.0  #: seconds; samples shed on a busy machine would count as lost, which is not the subject here
POSITION_SECONDS = 0.25
_GROUP_SECONDS = 0.05  #: seconds between two groups of hosts that sample together
_AT_ONCE = 256  #: hosts that are served, or sample, between two looks at the sockets
_due = attrgetter("due")
_LOOK_SECONDS = 5e-6  #: times hosts, between two looks through all of them, which take a tenth of that
_STATUS_SECONDS = 5.0


class Load(Fleet[EmulatedHost]):
    """One writer per index of ``hosts``, which sample in groups spread over the interval; ``places`` are testbed hosts
    on which some of them run, by index (else: the host of this process). ``other`` is one more descriptor to wait
    for."""

    def __init__(
        self,
        workload: Workload,
        seeds: Sequence[Address],
        hosts: Sequence[int],
        credentials: Credentials,
        places: Mapping[int, Host] | None = None,
        position_interval: float = POSITION_SECONDS,
        other: int | None = None,
    ) -> None:
        common, shards = Common(workload), list(seeds)
        super().__init__(
            [
                EmulatedHost(
                    common,
                    index,
                    shards,
                    _HELD,
                    position_interval,
                    logged=True,
                    shed_after=_NEVER,
                    credentials=credentials,
                )
                for index in hosts
            ],
            other,
        )
        self.workload = workload
        self.sampling = True
        self._places = dict(places or {})
        count = max(1, min(len(self.hosts), int(workload.interval / _GROUP_SECONDS)))
        self._groups = [self.hosts[number::count] for number in range(count)]
        self._next_group = 0
        self._looked = self._first_due = 0.0  #: time of the last look through all hosts; the earliest ``due`` of any
        self.begin()

    def begin(self) -> None:
        """Let the first group sample now, if sampling has not begun."""
        self._due = time.monotonic()

    def serve(self, host: EmulatedHost, now: float) -> None:
        """Serve a host in its place: its new connections are made there."""
        with self._at(host):
            super().serve(host, now)
        self._first_due = min(self._first_due, host.due)

    def turn(self, longest: float) -> bool:
        """Sample if due, serve the writers that are due, wait at most ``longest`` seconds for their sockets; True if
        ``other`` is ready."""
        now = time.monotonic()
        if self.sampling:
            self._sample_due(now)
        if now >= self._next_look():
            self._serve_some(now)
        wake = min(now + longest, self._next_look())
        if self.sampling:
            wake = min(wake, self._due)
        return self.attend(max(0.0, wake - time.monotonic()))

    def _sample_due(self, now: float) -> None:
        """Let due groups sample, late ones as soon as there is time."""
        interval, sampled = self.workload.interval, 0
        self._due = max(self._due, now - interval)
        while self._due <= now and sampled < _AT_ONCE:
            group = self._groups[self._next_group]
            wall, monotonic = time.time(), time.monotonic()
            for host in group:
                self.sample(host, tick_of(wall, interval), wall, monotonic, monotonic)
            sampled += len(group)
            self._next_group = (self._next_group + 1) % len(self._groups)
            self._due += interval / len(self._groups)

    def _serve_some(self, now: float) -> None:
        """Serve the writers that are due, the longest waiting first."""
        for host in sorted((host for host in self.hosts if host.due <= now), key=_due)[:_AT_ONCE]:
            self.serve(host, time.monotonic())
        self._looked, self._first_due = now, min(map(_due, self.hosts), default=math.inf)

    def _next_look(self) -> float:
        return max(self._looked + _LOOK_SECONDS * len(self.hosts), self._first_due)

    def run_for(self, seconds: float) -> None:
        """Work for this time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.turn(left)

    def run_until(self, done: Callable[[], object], seconds: float, what: str) -> None:
        """Work until ``done()``. Raises TemporaryError, naming ``what``, after ``seconds``."""
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
            with self._at(host):
                host.writer.drain(_STATUS_SECONDS)

    def logs(self) -> dict[int, list[float]]:
        """Monotonic times of all frames by host index: input of the scalar model."""
        return {host.index: list(host.log or ()) for host in self.hosts}

    def _at(self, host: EmulatedHost) -> AbstractContextManager[None]:
        place = self._places.get(host.index)
        return contextlib.nullcontext() if place is None else place.inside()
