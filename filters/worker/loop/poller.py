"""Poller of channels' descriptors and of descriptors watched for others."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import NamedTuple

from filters.worker.loop.channel import Channel


class Ready(NamedTuple):
    """Channels with received data, those that may send more, and callbacks of the other descriptors."""

    channels: list[Channel]
    writable: list[Channel]
    actions: list[Callable[[], None]]


class Poller:
    """poll(2) over descriptors that come and go."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._channels: dict[int, Channel] = {}
        self._actions: dict[int, Callable[[], None]] = {}

    def add(self, channel: Channel) -> None:
        """Wait for a channel's connection."""
        descriptor = channel.fileno()
        self._channels[descriptor] = channel
        self._poll.register(descriptor, channel.events)

    def watch(self, descriptor: int, action: Callable[[], None]) -> None:
        """Call ``action`` whenever a descriptor is readable."""
        self._actions[descriptor] = action
        self._poll.register(descriptor, select.POLLIN)

    def follow(self, channel: Channel) -> None:
        """Update the events polled for a channel."""
        self._poll.modify(channel.fileno(), channel.events)

    def remove(self, descriptor: int) -> None:
        """Call before a descriptor is closed."""
        self._channels.pop(descriptor, None)
        self._actions.pop(descriptor, None)
        self._poll.unregister(descriptor)

    def wait(self, seconds: float, gather: float) -> Ready:
        """Channels and actions that are ready within ``seconds``, the longest waiting first: a turn may leave the rest
        for the next one. Others have ``gather`` more seconds to join the first one with received data, unless that
        arrived during the work of the previous turn."""
        events = self._poll.poll(0) if gather else []
        if not events:
            events = self._poll.poll(max(0.0, seconds) * 1000.0)
            if events and gather and not _writable(events):
                time.sleep(gather)
                events = self._poll.poll(0)
        found = [descriptor for descriptor, what in events if what != select.POLLOUT]
        channels = [self._channels[descriptor] for descriptor in found if descriptor in self._channels]
        channels.sort(key=lambda channel: channel.asked)
        actions = [self._actions[descriptor] for descriptor in found if descriptor in self._actions]
        return Ready(channels, [self._channels[descriptor] for descriptor in _writable(events)], actions)


def _writable(events: list[tuple[int, int]]) -> list[int]:
    return [descriptor for descriptor, what in events if what & select.POLLOUT]
