"""What a whole reading found, whatever the clock says: a later one that finds nothing else takes it again.

Ages, and who is down for them, depend on the clock although nothing was committed. So the blocks of each snapshot are
its own; they are made when somebody looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from acquisition.snapshot import sight
from acquisition.snapshot.block import Block
from acquisition.snapshot.current_blocks import Judged
from acquisition.snapshot.names import Names
from acquisition.snapshot.placement import placements_of
from acquisition.snapshot.shard_reading import Owner
from acquisition.snapshot.sight import Sight
from acquisition.snapshot.snapshot import Contents, Snapshot

#: Whether the values of a (host id, resource set id) are wanted.
Takes = Callable[[int, int], bool]
#: Which reading it was, and what it took.
Question = tuple[str, Takes | None]
LONGEST_SERVED = 5.0  #: seconds for which an unchanged reading is taken again


class Found(NamedTuple):
    """``at`` is the reader's clock when the ticks were chosen, ``fresh`` makes the blocks anew, without ages;
    ``contested`` are the owners of the blocks of each VM that several hosts report. ``judged`` and ``names`` are of
    readings in which everything was current."""

    question: Question
    at: float
    errors: tuple[str, ...]
    fresh: Callable[[], list[Block]]
    contested: Mapping[str, Sequence[Owner]]
    sight: Sight
    until: float  #: when the states of its hosts may be others, by the reader's clock
    judged: Judged | None = None
    names: Sequence[Names | None] = ()
    unnamed: frozenset[int] = frozenset()  #: rows of which something has no name yet
    order: Sequence[int] | None = None  #: that of a snapshot, where ``fresh`` is in it

    def serves(self, question: Question, now: float) -> bool:
        """Whether a reading at ``now`` that finds nothing else may be this one again."""
        same = self.question == question and not self.unnamed and not self.errors
        return same and 0.0 <= now - self.at < LONGEST_SERVED and now < self.until

    def changes(self, judged: Judged, names: Sequence[Names | None]) -> list[int] | None:
        """The rows whose names, or rows and columns, are others in ``judged``, or are not all known; None where not
        everything is current in both, with the same members, of which each has names."""
        if self.judged is None or self.errors or None in names or len(names) != len(self.names):
            return None
        changed = judged.rows_unlike(self.judged)
        if changed is None:
            return None
        if names is not self.names:
            changed |= {row for row, pair in enumerate(zip(names, self.names, strict=True)) if pair[0] is not pair[1]}
        return sorted(changed | self.unnamed)

    def snapshot(self, began: float, now: float, down_after: float) -> Snapshot:
        """The snapshot of a reading that found this."""

        def make() -> Contents:
            blocks, takes = self.fresh(), self.question[1]
            sight.look(blocks, self.sight, now, down_after)
            taken = blocks if takes is None else [block for block in blocks if takes(block.host_id, block.set_id)]
            unread = [] if takes is None else [block for block in blocks if not takes(block.host_id, block.set_id)]
            return Contents(taken, unread, placements_of(taken, self.contested), self.order is not None)

        return Snapshot.made_later(self.question[0], now, self.errors, began, make)

    def next(self, judged: Judged, names: Sequence[Names | None], at: float) -> Found:
        """What is found when everything is current again, and every member has names."""
        order = self.order
        others = (pair for pair in zip(names, self.names, strict=True) if pair[0] is not pair[1])
        if order is None or any(_place(now) != _place(before) for now, before in others):
            order = sorted(range(len(names)), key=list(map(_place, names)).__getitem__)
        fresh = partial(_with_names, judged, names, order)
        return self._replace(at=at, judged=judged, names=names, fresh=fresh, order=order)


def _place(names: Names | None) -> tuple[str, str]:
    """As snapshot.place_of."""
    assert names is not None
    return names.table.host, names.table.resource_set


def _with_names(judged: Judged, names: Sequence[Names | None], order: Sequence[int]) -> list[Block]:
    """The blocks of a reading in which everything is current."""
    blocks = judged.current(order)
    for row, block in blocks.items():
        block.use_names(names[row], None)
    return list(blocks.values())
