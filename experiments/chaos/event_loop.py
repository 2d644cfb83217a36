"""Serves the writers of many hosts: whose socket is ready, whose turn it is."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Sequence

from experiments.chaos.logged_host import LoggedHost

_MOST_EVENTS = 256
_LONGEST = 0.05


class EventLoop:
    """Beside the writers of ``hosts`` it watches one more descriptor, ``other``."""

    def __init__(self, hosts: Sequence[LoggedHost], other: int) -> None:
        self.hosts = hosts
        self._epoll = select.epoll()
        self._epoll.register(other, select.EPOLLIN)
        self._by_descriptor: dict[int, LoggedHost] = {}

    def turn(self, until: float) -> bool:
        """Serve who is ready or due, waiting at most until ``until`` (monotonic) or 50 ms; true when
        ``other`` is readable."""
        now = time.monotonic()
        for host in self.hosts:
            if host.due <= now:
                self.serve(host, now)
        wake = min(until, now + _LONGEST, *(host.due for host in self.hosts))
        ready = self._epoll.poll(max(0.0, wake - time.monotonic()), _MOST_EVENTS)
        now = time.monotonic()
        called = False
        for descriptor, _ in ready:
            ready_host = self._by_descriptor.get(descriptor)
            if ready_host is None:
                called = True
            else:
                self.serve(ready_host, now)
        return called

    def serve(self, host: LoggedHost, now: float) -> None:
        """Let a writer do what it has to do, and wait for what it waits for."""
        writer = host.writer
        host.due = writer.service(now)
        wanted = (writer.fileno(), writer.events(), writer.generation)
        if host.registered != wanted:
            self._register(host, wanted)

    def _register(self, host: LoggedHost, wanted: tuple[int, int, int]) -> None:
        """A new connection may have the descriptor of the old one, which left the epoll set when it was
        closed: it is entered anew whenever changing it fails."""
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
