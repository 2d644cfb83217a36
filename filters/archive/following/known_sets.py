"""Known resource sets of a partition, and their rows in the database (pure).

Counts of forgotten sets are kept. Of each numbering only changes are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from acquisition.wire.frame import MOST_COUNTED
from filters.archive.minutes.resource_set import ResourceSet
from filters.archive.minutes.values import Position

_FORGET_MS = 3_600_000  #: longer than the reach of any stream
_SILENT_MS = 60_000  #: silence after which a set may be removed from memory
_MOST_SILENT = 8  #: silent sets kept per partition nevertheless, so that a restart of some hosts queries no database


class Counts(NamedTuple):
    """Samples: durable in the archive, never to be in it, and only in memory."""

    archived: int
    gap: int
    open: int


class KnownSets:
    """Sets by (host, resource set). ``past``: archived samples and gaps of forgotten sets."""

    def __init__(self, past: tuple[int, int] = (0, 0)) -> None:
        self.past = past
        self._by_key: dict[tuple[int, int], ResourceSet] = {}
        self._written: dict[tuple[int, ...], int] = {}  #: (host, resource set, epoch) -> newest number
        self._over: list[Position] = []  #: rows to remove

    def __iter__(self) -> Iterator[ResourceSet]:
        return iter(self._by_key.values())

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._by_key

    def of(self, host: int, resource_set: int) -> ResourceSet:
        """The set with this key, created if missing."""
        key = (host, resource_set)
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = ResourceSet(host, resource_set)
        return found

    @property
    def counts(self) -> Counts:
        """Books of all sets, including the forgotten ones."""
        (archived, gap), waiting = self.past, 0
        for one in self:
            archived += one.archived - one.unwritten
            gap += one.gap + sum(known.gap for known in one.numbers.values())
            waiting += one.open_samples + one.unwritten
        return Counts(archived, min(gap, MOST_COUNTED), waiting)

    def recall(self, positions: Iterable[Position]) -> None:
        """Load the rows of these sets from the database."""
        self._written.update((position[:3], position.sequence) for position in positions)

    def changed(self) -> tuple[Position, ...]:
        """Rows to write now, without data that is only in memory."""
        found = []
        for one in self:
            for epoch, known in one.numbers.items():
                key, sequence = (*one.key, epoch), known.without(one.spans(epoch)).newest
                if self._written.get(key) != sequence:
                    self._written[key] = sequence
                    found.append(Position(*key, sequence))
        return tuple(found)

    def over(self) -> tuple[Position, ...]:
        """Rows to remove now."""
        gone, self._over = tuple(self._over), []
        return gone

    def forget(self, now: int) -> Iterator[ResourceSet]:
        """Drop epochs silent for so long that no stream has any of their entries, and all but some of the silent sets:
        the database holds what is needed when they return. Yields each dropped set."""
        for one in list(self):
            for epoch in one.forget(now - _FORGET_MS):
                key = (*one.key, epoch)
                if key in self._written:
                    self._over.append(Position(*key, self._written.pop(key)))
            if not (one.numbers or one.unwritten):
                yield self._drop(one)
        silent = [one for one in self if one.is_durable and one.newest < now - _SILENT_MS]
        for one in sorted(silent, key=lambda one: one.newest)[: max(0, len(silent) - _MOST_SILENT)]:
            for epoch in one.numbers:  # its rows stay
                self._written.pop((*one.key, epoch), None)
            one.forget(now)
            yield self._drop(one)

    def _drop(self, one: ResourceSet) -> ResourceSet:
        archived, gap = self.past
        self.past = archived + one.archived, gap + one.gap
        return self._by_key.pop(one.key)
