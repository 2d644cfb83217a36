"""Fleet of emulated hosts in one event loop: sockets and turns."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from acquisition.errors import UnavailableError
from acquisition.model.ticks import tick_of

_MOST_EVENTS = 512
_CONNECT_SECONDS = 60.0
_CONNECTED_AT_ONCE = 64
_LONGEST_WAIT = 0.02


class Served(Protocol):
    """Part of a writer that the event loop needs: ``acquisition.outbox.writer.Writer`` has it."""

    @property
    def waits_for(self) -> tuple[int, int, int]:
        """The descriptor to poll, -1 if absent, the events to poll for, and a number that grows with every new
        connection."""

    def service(self, now: float) -> float:
        """Send and receive; returns the time of the next call."""

    def close(self) -> None:
        """Close the connection."""


class FleetHost(Protocol):
    """A host that samples on command; ``due`` is the next service time of its writer, ``registered`` are the
    descriptor, events and generation in the event loop."""

    index: int
    number: int
    due: float
    registered: tuple[int, int, int]

    @property
    def writer(self) -> Served:
        """Writer that sends its frames."""

    def early(self) -> float:
        """Seconds by which the next sampling ends before it is due."""

    def sample(self, tick: int, wall: float, monotonic: float) -> int:
        """Make the next frame and offer it; returns its number of samples."""


class Acknowledged(FleetHost, Protocol):
    """A host with acknowledgements from the filter; ``made`` frames of samples so far."""

    made: int

    def offer_table(self, tick: int, wall: float, monotonic: float) -> None:
        """Offer the names of all rows."""

    def waiting(self) -> int:
        """Frames not known to be applied."""

    @property
    def problem(self) -> str:
        """Problem that keeps frames from being sent."""


HostT = TypeVar("HostT", bound=FleetHost)
AcknowledgedT = TypeVar("AcknowledgedT", bound=Acknowledged)


class Counts(NamedTuple):
    """Counts of frames (without tables) and samples made so far; ``lag_seconds`` is the greatest delay of a frame after
    its due time, ``missed`` ticks were skipped."""

    frames: int
    samples: int
    missed: int
    lag_seconds: float


class Fleet(Generic[HostT]):
    """Serves the writers of ``hosts`` and watches one more descriptor, ``other``, if there is one; counts frames made
    through ``sample``."""

    def __init__(self, hosts: Sequence[HostT], other: int | None) -> None:
        self.hosts = list(hosts)
        self.frames = self.samples = self.missed = 0
        self.lag_seconds = 0.0
        self._epoll = select.epoll()
        if other is not None:
            self._epoll.register(other, select.EPOLLIN)
        self._by_descriptor: dict[int, HostT] = {}

    def counts(self) -> Counts:
        """Current counts; the lag is since the last call."""
        found = Counts(self.frames, self.samples, self.missed, self.lag_seconds)
        self.lag_seconds = 0.0
        return found

    def count(self, frames: int, samples: int, missed: int, lag: float) -> None:
        """Count frames made, and ticks skipped, without ``sample``."""
        self.frames += frames
        self.samples += samples
        self.missed += missed
        self.lag_seconds = max(self.lag_seconds, lag)

    def sample(self, host: HostT, tick: int, wall: float, monotonic: float, now: float) -> None:
        """Make the next frame of a host and send it."""
        self.samples += host.sample(tick, wall, monotonic)
        self.frames += 1
        self.serve(host, now)

    def serve(self, host: HostT, now: float) -> None:
        """Serve a host's writer, and register the events it waits for."""
        writer = host.writer
        host.due = writer.service(now)
        wanted = writer.waits_for
        if host.registered != wanted:
            self._register(host, wanted)

    def attend(self, seconds: float) -> bool:
        """Wait for sockets, with this timeout, and serve the ready ones; True if ``other`` is ready."""
        ready = self._epoll.poll(seconds, _MOST_EVENTS)
        now = time.monotonic()
        called = False
        for descriptor, _ in ready:
            host = self._by_descriptor.get(descriptor)
            if host is None:
                called = True
            else:
                self.serve(host, now)
        return called

    def serve_due(self) -> None:
        """Serve the writers that are due."""
        now = time.monotonic()
        for host in self.hosts:
            if host.due <= now:
                self.serve(host, now)

    def serve_until(self, unfinished: Callable[[HostT], object], seconds: float) -> bool:
        """Serve ``unfinished`` hosts until there are none; False if that takes longer than ``seconds``."""
        deadline = time.monotonic() + seconds
        waiting = [host for host in self.hosts if unfinished(host)]
        while waiting and time.monotonic() < deadline:
            now = time.monotonic()
            for host in waiting:
                self.serve(host, now)
            self.attend(_LONGEST_WAIT)
            waiting = [host for host in waiting if unfinished(host)]
        return not waiting

    def close(self) -> None:
        """Close all writers."""
        for host in self.hosts:
            host.writer.close()
        self._epoll.close()

    def _register(self, host: HostT, wanted: tuple[int, int, int]) -> None:
        """Change the registered events. A new connection may have the descriptor of the old one, which left the epoll
        set when it was closed; so it is added again if changing it fails."""
        descriptor, events, _ = wanted
        before, host.registered = host.registered[0], wanted
        if before != descriptor and self._by_descriptor.get(before) is host:
            del self._by_descriptor[before]
            with contextlib.suppress(OSError):
                self._epoll.unregister(before)
        if descriptor < 0:
            return
        try:
            self._epoll.modify(descriptor, events)
        except FileNotFoundError:
            self._epoll.register(descriptor, events)
        self._by_descriptor[descriptor] = host


def introduce(fleet: Fleet[AcknowledgedT], interval: float) -> None:
    """Offer the tables of all hosts, some at a time, wait until these are connected, and finally until the filter has
    all names. Raises UnavailableError."""
    for first in range(0, len(fleet.hosts), _CONNECTED_AT_ONCE):
        _connect(fleet, fleet.hosts[first : first + _CONNECTED_AT_ONCE], interval)
    if not drain(fleet, _CONNECT_SECONDS):
        raise UnavailableError("the shards or the filter did not take the tables of all emulated hosts")


def drain(fleet: Fleet[AcknowledgedT], seconds: float) -> bool:
    """Serve all writers until the filter has applied everything; False if that takes longer than ``seconds``."""
    return fleet.serve_until(lambda host: host.waiting(), seconds)


def _connect(fleet: Fleet[AcknowledgedT], hosts: Sequence[AcknowledgedT], interval: float) -> None:
    for host in hosts:
        wall, monotonic = time.time(), time.monotonic()
        host.offer_table(tick_of(wall, interval), wall, monotonic)
        fleet.serve(host, monotonic)
    deadline = time.monotonic() + _CONNECT_SECONDS
    while problems := [host.problem for host in hosts if host.problem]:
        if time.monotonic() > deadline:
            raise UnavailableError(problems[0])
        fleet.attend(0.01)
        now = time.monotonic()
        for host in hosts:
            fleet.serve(host, now)
