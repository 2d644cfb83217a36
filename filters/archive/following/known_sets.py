"""Known resource sets of a partition, and their rows in the database (pure).

Of those that it has forgotten the counts stay. Of each numbering only what has changed is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from acquisition.wire.frame import MOST_COUNTED
from filters.archive.minutes.resource_set import ResourceSet
from filters.archive.minutes.values import Position

_FORGET_MS = 3_600_000  #: longer than any stream reaches back
_SILENT_MS = 60_000  #: since a set reported, and it may leave the memory
_MOST_SILENT = 8  #: sets of a partition that stay all the same, so that a restart of some hosts asks no database


class Counts(NamedTuple):
    """Samples: durable in the archive, never to be in it, and in memory alone."""

    archived: int
    gap: int
    open: int


class KnownSets:
    """Sets by (host, resource set). ``past``: archived samples and gaps of forgotten sets."""

    def __init__(self, past: tuple[int, int] = (0, 0)) -> None:
        self.past = past
        self._by_key: dict[tuple[int, int], ResourceSet] = {}
        self._written: dict[tuple[int, ...], int] = {}  #: (host, resource set, epoch) -> the newest number
        self._over: list[Position] = []  #: rows that go

    def __iter__(self) -> Iterator[ResourceSet]:
        return iter(self._by_key.values())

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._by_key

    def of(self, host: int, resource_set: int) -> ResourceSet:
        """One set, made where it is missing."""
        key = (host, resource_set)
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = ResourceSet(host, resource_set)
        return found

    @property
    def counts(self) -> Counts:
        """The books of all sets, the forgotten ones included."""
        (archived, gap), waiting = self.past, 0
        for one in self:
            archived += one.archived - one.unwritten
            gap += one.gap + sum(known.gap for known in one.numbers.values())
            waiting += one.open_samples + one.unwritten
        return Counts(archived, min(gap, MOST_COUNTED), waiting)

    def recall(self, positions: Iterable[Position]) -> None:
        """The rows that the database has of these sets."""
        self._written.update((position[:3], position.sequence) for position in positions)

    def changed(self) -> tuple[Position, ...]:
        """The rows to write now: what is in memory alone does not count."""
        found = []
        for one in self:
            for epoch, known in one.numbers.items():
                key, sequence = (*one.key, epoch), known.without(one.spans(epoch)).newest
                if self._written.get(key) != sequence:
                    self._written[key] = sequence
                    found.append(Position(*key, sequence))
        return tuple(found)

    def over(self) -> tuple[Position, ...]:
        """The rows to remove now."""
        gone, self._over = tuple(self._over), []
        return gone

    def forget(self, now: int) -> Iterator[ResourceSet]:
        """Drop epochs silent for so long that no stream holds anything of them, and of the silent sets all but some:
        the database has what is needed when they come back. Yields each set that goes."""
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
