"""What a whole reading found, whatever the clock says: a later one that finds nothing else takes it again.

Ages, and who is down for them, depend on the clock although nothing was committed. So the blocks of each snapshot are
its own; they are made when somebody looks at them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from acquisition.snapshot import sight
from acquisition.snapshot.block import Block
from acquisition.snapshot.current_blocks import Judged
from acquisition.snapshot.names import Names
from acquisition.snapshot.owner import Owner
from acquisition.snapshot.placement import Placements, settle
from acquisition.snapshot.sight import Sight
from acquisition.snapshot.snapshot import Contents, Snapshot, place_of
from acquisition.snapshot.vm_evidence import all_evidence_of

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
    is_named: bool = True  #: whether every row and column has its name
    order: Sequence[int] | None = None  #: that of a snapshot, where ``fresh`` is in it

    def serves(self, question: Question, now: float) -> bool:
        """Whether a reading at ``now`` that finds nothing else may be this one again."""
        same = self.question == question and self.is_named and not self.errors
        return same and 0.0 <= now - self.at < LONGEST_SERVED and now < self.until

    def has_rows_of(self, judged: Judged, names: Sequence[Names | None]) -> bool:
        """Whether in both everything is current, with the same members, rows, columns and names."""
        same = self.is_named and not self.errors and all(map(operator.is_, names, self.names))
        return same and self.judged is not None and judged.has_rows_of(self.judged)

    def snapshot(self, began: float, now: float, down_after: float) -> Snapshot:
        """The snapshot of a reading that found this."""

        def make() -> Contents:
            blocks, takes = self.fresh(), self.question[1]
            sight.look(blocks, self.sight, now, down_after)
            taken = blocks if takes is None else [block for block in blocks if takes(block.host_id, block.set_id)]
            there = {(block.host_id, block.set_id): block for block in taken} if self.contested else {}
            places = {
                vm: settle(vm, all_evidence_of(vm, {owner: there[owner] for owner in owners}))
                for vm, owners in self.contested.items()
            }
            unread = [] if takes is None else [block for block in blocks if not takes(block.host_id, block.set_id)]
            return Contents(taken, unread, Placements(taken, places), self.order is not None)

        return Snapshot.made_later(self.question[0], now, self.errors, began, make)

    def next(self, judged: Judged, at: float) -> Found:
        """What is found when everything is current again, with the same rows and names."""
        order = self.order
        if order is None:
            keys = [place_of(block) for block in _with_names(judged, self.names, range(len(self.names)))]
            order = sorted(range(len(keys)), key=keys.__getitem__)
        return self._replace(at=at, judged=judged, fresh=partial(_with_names, judged, self.names, order), order=order)


def _with_names(judged: Judged, names: Sequence[Names | None], order: Sequence[int]) -> list[Block]:
    """The blocks of a reading in which everything is current."""
    blocks, found = judged.blocks(), []
    for row in order:
        block = blocks[row]
        assert block is not None
        block.use_names(names[row], None)
        found.append(block)
    return found
