"""Many emulated hosts in one event loop: whose socket is ready, whose turn it is to be served."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from experiments.emulation.emulated_host import SampledHost

HostT = TypeVar("HostT", bound=SampledHost)

_MOST_EVENTS = 512


class Counts(NamedTuple):
    """What all hosts have made so far, in frames (tables not included) and samples; ``lag_seconds``
    is the most by which a frame was made later than it was due, ``missed`` ticks were skipped."""

    frames: int
    samples: int
    missed: int
    lag_seconds: float


class Fleet(Generic[HostT]):
    """Serves the writers of ``hosts``; counts what is made through ``sample``."""

    def __init__(self, hosts: Sequence[HostT], other: int) -> None:
        self.hosts = list(hosts)
        self.frames = self.samples = self.missed = 0
        self.lag_seconds = 0.0
        self._epoll = select.epoll()
        self._epoll.register(other, select.EPOLLIN)
        self._by_descriptor: dict[int, HostT] = {}

    def counts(self) -> Counts:
        """The counts now; the lag is since the last call."""
        found = Counts(self.frames, self.samples, self.missed, self.lag_seconds)
        self.lag_seconds = 0.0
        return found

    def sample(self, host: HostT, tick: int, wall: float, monotonic: float, now: float) -> None:
        """Let a host make its next frame and send it."""
        self.samples += host.sample(tick, wall, monotonic)
        self.frames += 1
        self.serve(host, now)

    def serve(self, host: HostT, now: float) -> None:
        """Let a host's writer do what it has to do, and wait for what it waits for."""
        writer = host.writer
        host.due = writer.service(now)
        wanted = (writer.fileno(), writer.events(), writer.generation)
        if host.registered != wanted:
            self._register(host, wanted)

    def attend(self, seconds: float) -> bool:
        """Wait at most so long for sockets and serve those that are ready; true when ``other`` is."""
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

    def serve_all(self) -> None:
        """Serve every host once, ready or not."""
        now = time.monotonic()
        for host in self.hosts:
            self.serve(host, now)

    def close(self) -> None:
        """Close all writers."""
        for host in self.hosts:
            host.writer.close()
        self._epoll.close()

    def _register(self, host: HostT, wanted: tuple[int, int, int]) -> None:
        """Wait for other things. A new connection may have the descriptor of the old one, which left the
        epoll set when it was closed; so it is entered anew whenever changing it fails."""
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
