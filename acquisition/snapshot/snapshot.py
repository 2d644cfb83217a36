"""Snapshot: the result of one reading of the smoothed state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Self

from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.matrix import Matrix, matrix_of
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.rows import Patterns, Row, Selection, rows_of
from acquisition.snapshot.values.states import CURRENT
from acquisition.snapshot.vms.placement import NOWHERE, Placements
from acquisition.wire.position import SHEDS
from acquisition.wire.table import VM


class Totals(NamedTuple):
    """Books of the filter over all hosts; in samples unless stated otherwise (see acquisition.wire.position)."""

    before: int = 0
    applied: int = 0
    invalid: int = 0
    lost: int = 0
    frames: int = 0
    lost_frames: int = 0
    duplicates: int = 0
    refused: int = 0
    gaps: int = 0  #: of unknown size (``Quality``)
    shedding: int = 0  #: resource sets whose probe sheds frames now
    lossy: int = 0  #: resource sets with losses in this epoch


class Contents(NamedTuple):
    """Blocks of a reading, in the order of a snapshot if ``ordered``; those that it did not take, and the places of
    VMs."""

    blocks: Sequence[Block]
    unread: Sequence[Block] = ()
    placements: Placements | None = None
    ordered: bool = False


def place_of(block: Block) -> tuple[str, str]:
    """Sort key of the blocks of a snapshot."""
    return block.host, block.resource_set


class Snapshot:
    """Result of one reading. ``blocks`` is ordered by host and resource set.

    ``began`` is the reader's clock when it chose the ticks, ``now`` when everything had been read; ``errors`` list
    unreadable shards, tables and positions, and why hosts cannot be seen; ``damaged`` counts invalid records in
    the shards. ``blind`` is why no host at all can be seen, and then also one of the errors: such a snapshot
    never means that all is well.
    ``unread`` are the blocks not taken by a narrower reading: position and age, but no values, no verdict.
    ``placements`` is the one host of each VM, as far as known from the blocks: a reading narrowed
    to some hosts lacks the reports of the others.
    """

    def __init__(
        self,
        reading: str,
        now: float,
        blocks: Sequence[Block],
        errors: Sequence[str],
        unread: Sequence[Block] = (),
        placements: Placements | None = None,
        began: float | None = None,
        blind: str = "",
    ) -> None:
        self.reading = reading
        self.began = now if began is None else began
        self.now = now
        self.errors = tuple(errors)
        self.blind = blind
        self._make: Callable[[], Contents] = lambda: Contents(blocks, unread, placements)

    @classmethod
    def made_later(
        cls, reading: str, now: float, errors: Sequence[str], began: float, make: Callable[[], Contents]
    ) -> Self:
        """Snapshot whose contents are built on first access."""
        snapshot = cls(reading, now, (), errors, began=began)
        snapshot._make = make
        return snapshot

    def with_newer(self, newer: Mapping[Owner, Block], now: float) -> Snapshot:
        """This snapshot as of ``now``, with ``newer`` blocks in place of its own; VMs stay where they are."""
        contents = self._contents
        blocks = [newer.get((block.host_id, block.set_id), block).at(now) for block in contents.blocks]
        made = copy.copy(self)
        made.now = now
        made.__dict__["_contents"] = contents._replace(blocks=tuple(blocks))
        return made

    @cached_property
    def _contents(self) -> Contents:
        made = self._make()
        blocks = tuple(made.blocks if made.ordered else sorted(made.blocks, key=place_of))
        return Contents(blocks, tuple(made.unread), made.placements or _placements(blocks))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks that were read."""
        return tuple(self._contents.blocks)

    @property
    def unread(self) -> tuple[Block, ...]:
        """Hosts that were not taken."""
        return tuple(self._contents.unread)

    @property
    def placements(self) -> Placements:
        """The one host of each VM."""
        found = self._contents.placements
        assert found is not None
        return found

    @property
    def damaged(self) -> int:
        """Number of invalid records."""
        return sum(1 for block in self.blocks if block.damage)

    def select(
        self, host: Patterns = (), resource_set: Patterns = (), entity: Patterns = (), metric: Patterns = ()
    ) -> Selection:
        """A selection; each argument is one pattern or several, of names (``*`` and ``?``) or hex ids."""
        return Selection.of(host, resource_set, entity, metric)

    def rows(
        self, host: Patterns = (), resource_set: Patterns = (), entity: Patterns = (), metric: Patterns = ()
    ) -> Iterator[Row]:
        """Plain objects, one for each sample selected by the patterns (all, without any)."""
        return rows_of(self.blocks, Selection.of(host, resource_set, entity, metric), self.placements.mark)

    def matrix(self, resource_set: str, metric: str, host: Patterns = (), entity: Patterns = ()) -> Matrix:
        """One metric of all entities of a resource set as numpy arrays."""
        return matrix_of(self.blocks, Selection.of(host, resource_set, entity, ()), metric)

    @property
    def totals(self) -> Totals:
        """Sums of all positions."""
        rows = [
            (*position[6:14], position.gaps, bool(position.flags & SHEDS), position.lost > 0)
            for position in (block.position for block in (*self.blocks, *self.unread))
            if position is not None
        ]
        return Totals(*(sum(column) for column in zip(*rows, strict=True))) if rows else Totals()

    @property
    def late(self) -> tuple[Block, ...]:
        """Blocks that are not current."""
        return tuple(block for block in self.blocks if block.state != CURRENT)


def _placements(blocks: Sequence[Block]) -> Placements:
    """Places of VMs from these blocks alone."""
    has_vms = any(entity.kind == VM for block in blocks for entity in block.entities)
    return Placements.of(blocks) if has_vms else NOWHERE
