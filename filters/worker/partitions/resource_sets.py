"""Resource sets of a partition: states, last arrivals, expiry."""

from __future__ import annotations

import time

from acquisition.errors import FrameError
from acquisition.link.resp import pack
from acquisition.model.identity import is_own_name
from acquisition.wire import keys, seen
from acquisition.wire.rejected import HostSizes
from acquisition.wire.seen import Seen
from filters.worker.partitions.dormant_positions import DormantPositions, seen_of
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.name_table import NameTable
from filters.worker.states.state import State

_EXPIRE_EVERY = 10.0


class ResourceSets:
    """``states`` by (host, resource set); ``heard`` by the same key: CLOCK_MONOTONIC of the newest frame."""

    def __init__(self, number: int, tag: str, partitions: int, settings: FilterSettings) -> None:
        self.states: dict[tuple[int, int], State] = {}
        self.heard: dict[tuple[int, int], float] = {}
        self.sizes = HostSizes(settings.limits)
        self.dormant = DormantPositions(tag, partitions, settings.limits.resource_sets)
        self._number = number
        self._tag = tag
        self._partitions = partitions
        self._settings = settings
        self.expire_at = 0.0  #: when ``expire`` is due

    def owns(self, host: int) -> bool:
        """Whether a host belongs to this partition."""
        return keys.partition_of(host, self._partitions) == self._number

    def add(self, host: int, resource_set: int) -> State:
        """A new state without data. Raises LimitError."""
        self.sizes.add(host, resource_set)
        state = self.states[(host, resource_set)] = State(self._tag, host, resource_set, self._settings.keep_ticks)
        return state

    def admit(self, host: int, resource_set: int, commands: list[bytes]) -> State:
        """State of a set with its first frame, continued if it was dormant; adds to the ``commands`` of
        the next commit. Raises FrameError."""
        if not self.owns(host):
            raise FrameError("partition", f"host {host:016x} does not belong to this partition")
        state = self.add(host, resource_set)
        commands += self.dormant.recall(state)
        return state

    def name(self, state: State, names: NameTable) -> None:
        """Set the table of a resource set."""
        state.track.name(is_own_name(names.host, state.host))
        state.learn(names, self._settings.tau_row(names.metrics))

    def expire(self, now: float) -> list[bytes]:
        """Forget hosts without frames to this worker for ``expire_seconds``; returns the commands that record it.

        ``now`` is monotonic: no host's clock matters.
        """
        limit = self._settings.expire_seconds
        self.expire_at = now + min(_EXPIRE_EVERY, limit / 2)
        gone = [key for key in self.states if now - self.heard.setdefault(key, now) > limit]
        silent = {host for host, _ in gone} - {host for host, _ in self.states.keys() - set(gone)}
        commands = self.dormant.miss(seen_of(self.states, self.heard, silent, now), time.time())
        for key in gone:
            state = self.states.pop(key)
            self.sizes.remove(*key)
            del self.heard[key]
            commands.append(pack(("HDEL", keys.applied(self._tag), state.member)))
            commands += self.dormant.keep(state)
            commands.append(pack(("DEL", state.names_key)))
        return commands

    def known(self) -> dict[int, Seen]:
        """All hosts with states or on the roster, by id."""
        missed = (seen.decode(*pair) for pair in self.dormant.roster.items())
        here = seen_of(self.states, self.heard, {host for host, _ in self.states}, time.monotonic())
        return {one.host: one for one in (*missed, *here) if one is not None}
