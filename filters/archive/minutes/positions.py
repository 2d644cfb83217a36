"""How far each numbering of a partition is in the database, so that only what has changed is written (pure)."""

from __future__ import annotations

from collections.abc import Iterable

from filters.archive.minutes.resource_set import ResourceSet
from filters.archive.minutes.values import Position


class Positions:
    """The newest number of each (host, resource set, epoch) as it was written last."""

    def __init__(self, written: Iterable[Position] = ()) -> None:
        self._written = {position[:3]: position.sequence for position in written}
        self._forgotten: list[Position] = []

    def forget(self, one: ResourceSet, epoch: int) -> None:
        """An epoch is over; its row goes."""
        key = one.host, one.resource_set, epoch
        if key in self._written:
            self._forgotten.append(Position(*key, self._written.pop(key)))

    def spill(self, one: ResourceSet) -> None:
        """A set leaves the memory; its rows stay."""
        for epoch in one.numbers:
            self._written.pop((one.host, one.resource_set, epoch), None)

    def recall(self, position: Position) -> None:
        """The row of a set that comes back."""
        self._written[position[:3]] = position.sequence

    def changed(self, sets: Iterable[ResourceSet]) -> tuple[Position, ...]:
        """What is written now: what is in memory alone does not count."""
        found = []
        for one in sets:
            for epoch, known in one.numbers.items():
                key, sequence = (one.host, one.resource_set, epoch), known.without(one.spans(epoch)).newest
                if self._written.get(key) != sequence:
                    self._written[key] = sequence
                    found.append(Position(*key, sequence))
        return tuple(found)

    def forgotten(self) -> tuple[Position, ...]:
        """What is removed now."""
        gone, self._forgotten = tuple(self._forgotten), []
        return gone
