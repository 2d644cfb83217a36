"""Dormant positions of expired resource sets, and the roster of their hosts.

Without the positions, a host that returns after a power cut of an hour would look like a new one, without a
gap of unknown size; and the frames of a set that was dormant for a while, still held by its
probe, would be applied twice. Without the roster, an expired host would be unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Set

from acquisition.errors import FrameError
from acquisition.link.resp import packed
from acquisition.wire import keys, position, seen
from acquisition.wire.rejected import Limits
from acquisition.wire.seen import Seen
from filters.worker.states.state import State

_DAY = 86_400.0
_KEPT_SECONDS = 30 * 86_400
_MOST = 128  #: per partition, the newest: those of 2,700 hosts with three sets each fit in 64 partitions
_SPREAD = 1.5  #: hosts hash to partitions: none has this many times its share


class DormantPositions:
    """Positions of a partition's expired sets, ``most`` of one host, by their field in ``dormant:{tag}``, and its
    hosts without any other (``roster``, by theirs)."""

    def __init__(self, tag: str, partitions: int = 1, most: int = Limits().resource_sets) -> None:
        self.key = keys.dormant(tag)
        self._most = most
        self.roster: dict[bytes, bytes] = {}
        self._most_hosts = int(seen.MOST * (_SPREAD if partitions > 1 else 1.0)) // partitions + 1
        self._positions: dict[bytes, bytes] = {}

    def load(self, rows: list[bytes]) -> None:
        """Load the shard's data: alternating fields and values."""
        self._positions = dict(zip(rows[::2], rows[1::2], strict=True))
        self.roster = {field: self._positions.pop(field) for field in list(self._positions) if seen.is_field(field)}

    def keep(self, state: State) -> list[bytes]:
        """Commands that store a set which is being forgotten, replacing the oldest beyond the limit."""
        host, _, _ = state.member.partition(b":")
        if not state.track.epoch or sum(member.startswith(host) for member in self._positions) >= self._most:
            return []
        commands = []
        while len(self._positions) >= _MOST:
            oldest = next(iter(self._positions))
            del self._positions[oldest]
            commands.append(packed(("HDEL", self.key, oldest)))
        data = self._positions[state.member] = bytes(state.track)
        set_one = packed(("HSET", self.key, state.member, data))
        return [*commands, set_one, packed(("EXPIRE", self.key, _KEPT_SECONDS))]

    def recall(self, state: State) -> list[bytes]:
        """Continue a new state from its dormant position; returns commands to remove it and its host's roster entry."""
        known = [] if self.roster.pop(field := state.member[:16], None) is None else [field]
        data = self._positions.pop(state.member, None)
        if data is not None:
            known.append(state.member)
            try:
                state.track.restore(position.decode(data))
                state.ask_for_table()
            except FrameError:
                pass  # written by someone else: the set is a new one
        return [packed(("HDEL", self.key, *known))] if known else []

    def miss(self, hosts: Iterable[Seen], now: float) -> list[bytes]:
        """Commands that put hosts on the roster, and remove those seen too long ago, or too many.
        ``now`` in seconds since 1970."""
        added = dict(map(seen.encode, hosts))
        if not added:
            return []
        self.roster |= added
        last = {field: found.last for field, data in self.roster.items() if (found := seen.decode(field, data))}
        newest = sorted(last, key=last.__getitem__, reverse=True)[: self._most_hosts]
        kept = {field for field in newest if now - last[field] < seen.KEPT_SECONDS}
        over = [field for field in self.roster if field not in kept]
        self.roster = {field: data for field, data in self.roster.items() if field in kept}
        pairs = [word for pair in added.items() for word in pair]
        commands = [packed(("HSET", self.key, *pairs)), packed(("EXPIRE", self.key, _KEPT_SECONDS))]
        return [*commands, packed(("HDEL", self.key, *over))] if over else commands


def seen_of(
    states: Mapping[tuple[int, int], State], heard: Mapping[tuple[int, int], float], hosts: Set[int], now: float
) -> list[Seen]:
    """Last times of these ``hosts``, each in one or more of ``states``. ``heard`` and ``now`` are monotonic.

    A host's own time is used unless its clock is far off: the worker may have been started since."""
    found: dict[int, Seen] = {}
    for (host, resource_set), state in states.items():
        if host in hosts:
            before = found.get(host, Seen(host, "", 0.0))
            last = time.time() - now + heard.get((host, resource_set), now)
            last = state.track.wall if 0.0 <= last - state.track.wall < _DAY else last
            name = before.name or (state.names.host if state.names is not None else "")
            found[host] = Seen(host, name, max(before.last, last))
    return list(found.values())
