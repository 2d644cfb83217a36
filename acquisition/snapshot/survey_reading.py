"""What a survey reads from the shards: the records of one resource set of all hosts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.link.cluster import Batch, Cluster
from acquisition.snapshot.column import Bools
from acquisition.snapshot.current_blocks import due_ticks
from acquisition.snapshot.judgement import Due
from acquisition.snapshot.positions import PositionTable
from acquisition.snapshot.record_arrays import Rows
from acquisition.snapshot.shard_reading import Command, Member
from acquisition.wire.layout import Layout

_MOST_BATCHES = 8  #: that are kept: one for each slot, and some for mixtures


class Taken(NamedTuple):
    """Everything that was read. ``rows`` (N,) are those of the resource set among all of ``table``; arrays and
    lists (N,) are in their order.

    ``ticks`` are those that are due, ``intervals`` seconds; both 0 where a host's position says nothing of them.
    ``records`` are None where there is nothing; ``answered`` is False where that is not certain.
    """

    due: Due
    table: PositionTable
    set_id: int
    rows: Rows
    ticks: npt.NDArray[np.int64]
    intervals: npt.NDArray[np.float64]
    records: Sequence[bytes | None]
    answered: Bools
    without: npt.NDArray[np.uint64]  #: hosts of which the shards know other resource sets only


class SetReader:
    """Reads one resource set, again and again, behind all ``positions``; it keeps the commands while nobody comes or
    goes."""

    def __init__(self, layout: Layout, set_id: int, positions: Batch) -> None:
        self._keep_ticks = layout.keep_ticks
        self._positions = positions
        self._set_id = set_id
        self._members: Sequence[Member] = ()
        self._intervals: npt.NDArray[np.float64] = np.empty(0)
        self._without: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._early = b""  #: the slots that were asked for early
        self._asked: dict[bytes, Batch] = {}  #: by slots: all positions, then the records

    def prefetch(self, due: Due) -> Batch:
        """All positions, and what ``take`` will ask for behind them unless hosts have come or gone since (as
        acquisition.snapshot.partition_reading does)."""
        self._early = (due_ticks(self._intervals, due)[1] % self._keep_ticks).tobytes()
        return self._asked.get(self._early, self._positions)

    def take(self, cluster: Cluster, table: PositionTable, due: Due, replies: Sequence[Any] = ()) -> Taken:
        """Read it, as far as the ``replies`` to what was asked early are not what is wanted. Raises ShardError when no
        shard answers at all."""
        rows = np.flatnonzero(table.sets == self._set_id)
        self._intervals = np.where(table.known[rows], table.records["interval"][rows], 0.0)
        intervals, wanted = due_ticks(self._intervals, due)
        slots = wanted % self._keep_ticks
        foreseen = len(replies) and self._members is table.members and self._early == slots.tobytes()
        commands = self._asking(table, rows, slots)
        if not foreseen:
            replies = cluster.gather(commands)
        sizes = [len(command) - 1 for _, command in commands]
        records, answered = _flat(replies, sizes)
        return Taken(due, table, self._set_id, rows, wanted, intervals, records, answered, self._without)

    def _asking(self, table: PositionTable, rows: Rows, slots: npt.NDArray[np.int64]) -> Sequence[Command]:
        """One command for each partition."""
        if self._members is not table.members:
            self._members = table.members
            self._asked.clear()
            self._without = np.setdiff1d(table.hosts, table.hosts[rows])
        found = self._asked.get(slots.tobytes())
        if found is None:
            if len(self._asked) >= _MOST_BATCHES:
                self._asked.clear()
            members = [table.members[row] for row in rows.tolist()]
            commands = _commands(members, slots.tolist())
            found = self._asked[slots.tobytes()] = Batch([*self._positions.commands, *commands])
        return found.commands[len(self._positions.commands) :]


def _commands(members: Sequence[Member], slots: Sequence[int]) -> list[Command]:
    commands: list[Command] = []
    for _, pairs in groupby(zip(members, slots, strict=True), key=lambda pair: pair[0].tag):
        records = [f"{member.prefix}{slot}" for member, slot in pairs]
        commands.append((records[0], ("MGET", *records)))
    return commands


def _flat(replies: Sequence[Any], sizes: Sequence[int]) -> tuple[list[bytes | None], Bools]:
    """The values of all replies, and which were answered: a partition may be on its way, its shard down."""
    values: list[bytes | None] = []
    answered = [isinstance(reply, list) for reply in replies]
    for reply, size, good in zip(replies, sizes, answered, strict=True):
        values += reply if good else [None] * size
    return values, np.repeat(np.array(answered, np.bool_), sizes)
