"""Block: one resource set of one host in a snapshot, with values as arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from acquisition.model import codes, ticks
from acquisition.model.metric import Metric
from acquisition.snapshot.values.members import Member
from acquisition.snapshot.values.names import Names, nameless_entity, nameless_metric
from acquisition.snapshot.values.states import CAUSES, CURRENT, LATE, UNKNOWN
from acquisition.wire import position as position_format
from acquisition.wire.position import SHEDS, Position
from acquisition.wire.records import smoothed
from acquisition.wire.records.planes import Plane
from acquisition.wire.records.smoothed import Floats, SmoothedRecord
from acquisition.wire.table import Entity

_INFINITY = float("inf")


def finite(number: float) -> float | None:
    """The number, or None for NaN and infinity."""
    return number if math.isfinite(number) else None


class Quality(NamedTuple):
    """Completeness of a resource set of a host, from its applied position.

    ``coverage`` is the fraction of samples that reached the filter, among those of this epoch with a known
    fate: None before there are any. ``lost_seconds`` is the time from the newest loss to the newest
    tick, None if nothing was lost. A probe that ``sheds`` leaves out ticks, because more is made
    than the pipeline takes; averages over time stay right, counts of events do not.
    ``gaps`` counts gaps of unknown size (power cuts of the host), those of earlier epochs included.
    """

    coverage: float | None
    lost: int
    lost_seconds: float | None
    sheds: bool
    gaps: int

    @classmethod
    def of(cls, position: Position | None) -> Quality:
        """Quality stated by a position."""
        if position is None:
            return Quality(None, 0, None, False, 0)
        decided = position.applied + position.lost
        lost_seconds = max(0.0, (position.tick - position.lost_tick) * position.interval) if position.lost else None
        return Quality(
            position.applied / decided if decided else None,
            position.lost,
            lost_seconds,
            bool(position.flags & SHEDS),
            position.gaps,
        )


class Block:
    """One (host, resource set) of a snapshot; values are decoded on first use.

    ``tick``, ``wall`` and ``age_seconds`` are those of the values if the block has any, else of the
    newest tick applied by the filter. ``age_seconds`` counts from the end of
    sampling, or from when the filter had the samples if the host's clock is ahead of that.
    ``delay`` is why its tick is missing, ``cause`` (of states.CAUSES) why it is unknown or down, ``since`` when, in
    seconds since 1970; otherwise both are empty. ``has_values`` is False for a block that is not
    current in a coherent reading: no older value stands in for the missing one.
    ``damage`` is the reason of an invalid record or position; ``unreachable``: a shard
    did not answer for this block; ``unheard``: nothing has arrived for longer than ``down_after`` of this
    resource set, although its host may be up. ``past`` is the newest record of a block without values, read
    only if one of its VMs is reported by another host as well: evidence of the past, not values of this reading.
    """

    __slots__ = (
        "_cube", "_head", "_ids", "_position", "_record", "_schema", "age_seconds", "cause", "damage", "data", "delay",
        "filtered", "has_values", "host", "host_id", "interval", "names", "past", "resource_set", "set_id", "since",
        "state", "tick", "unheard", "unreachable", "wall",
    )  # fmt: skip

    def __init__(self, host_id: int, set_id: int, position: Position | None) -> None:
        self.host_id = host_id
        self.set_id = set_id
        self._position: Position | bytes | None = position
        self.host = f"{host_id:016x}"
        self.resource_set = f"{set_id:08x}"
        self.names: Names | None = None
        self.state = LATE
        self.cause = self.delay = ""
        self.since = 0.0
        self.damage = ""
        self.unreachable = False
        self.unheard = False
        self.has_values = False
        self.tick = position.tick if position else 0
        self.wall = position.wall if position else 0.0
        self.interval = position.interval if position else 0.0
        self.filtered = self.wall
        self.age_seconds = _INFINITY
        self._head: smoothed.Head | None = None
        self.data = b""
        self.past: SmoothedRecord | None = None
        self._ids = b""
        self._schema: int | None = None
        self._record: SmoothedRecord | None = None
        self._cube: tuple[Floats, dict[str, int]] | None = None

    @classmethod
    def current(
        cls,
        member: Member,
        position: bytes,
        data: bytes,
        ids: bytes,
        schema: int,
        interval: float,
        tick: int,
        wall: float,
        filtered: float,
    ) -> Self:
        """A current block of a valid record and a valid position, both decoded on first use;
        its names must be set."""
        block = cls.__new__(cls)
        _, block.host_id, block.set_id, _ = member
        block._position, block.data, block.interval = position, data, interval
        block.tick, block.wall, block.filtered = tick, wall, filtered
        block.state, block.has_values, block.age_seconds = CURRENT, True, _INFINITY
        block.cause = block.delay = block.damage = block.host = block.resource_set = ""
        block.since = 0.0
        block.unreachable = block.unheard = False
        block.names = block.past = block._head = block._record = block._cube = None
        block._ids, block._schema = ids, schema
        return block

    def again(self) -> Self:
        """The same block for a later unchanged reading: its age and what follows from it are to be
        reported again."""
        block = type(self).__new__(type(self))
        for name in Block.__slots__:
            setattr(block, name, getattr(self, name))
        block.state = LATE if self.cause else self.state
        block.cause, block.since, block.unheard = "", 0.0, False
        return block

    def at(self, now: float) -> Self:
        """The same block with its age at another moment, by the reader's clock."""
        block = type(self).__new__(type(self))
        for name in Block.__slots__:
            setattr(block, name, getattr(self, name))
        if self.wall:
            block.age_seconds = max(0.0, now - min(self.wall, self.filtered))
        return block

    @property
    def reason(self) -> str:
        """Why it is not current, as text; empty for a current block."""
        return "; ".join(part for part in (CAUSES.get(self.cause, ""), self.delay) if part)

    @property
    def head(self) -> smoothed.Head | None:
        """Header of its record, or of the newest known one; None if none is known."""
        if self._head is None and self.has_values:
            self._head = smoothed.unpack_head(self.data)
        return self._head

    @property
    def position(self) -> Position | None:
        """The filter's position in it; None if unknown."""
        if isinstance(self._position, bytes):
            self._position = position_format.decode(self._position)
        return self._position

    def take(self, head: smoothed.Head, data: bytes) -> None:
        """Set the values of this block from a checked record."""
        self._head, self.data, self.has_values = head, data, True
        self._record = self._cube = None
        self.tick, self.wall, self.filtered = head.tick, head.wall, head.filtered
        self._ids, self._schema = b"", None

    def take_rows(self, head: smoothed.Head, ids: bytes) -> None:
        """Take from an older record only its rows and when it was made."""
        self._head, self._ids, self._schema, self.filtered = head, ids, head.schema, head.filtered

    def use_names(self, names: Names | None, set_name: str | None) -> None:
        """Set names; items without a name keep their number."""
        self.names = names
        if names is not None:
            self.host, self.resource_set = names.table.host, names.table.resource_set
        else:
            self.host = f"{self.host_id:016x}"
            self.resource_set = f"{self.set_id:08x}" if set_name is None else set_name

    @property
    def quality(self) -> Quality:
        """Quality of this resource set: samples lost or being shed."""
        return Quality.of(self.position)

    @property
    def ids(self) -> npt.NDArray[np.uint64]:
        """Entity ids, uint64 (n,); those of the newest record if the block has no values."""
        return np.frombuffer(self.raw_ids, "<u8")

    @property
    def raw_ids(self) -> bytes:
        """As ``ids``, as bytes. Without any record: every entity of the table, if there is one."""
        if not self._ids:
            head = self.head
            if self.data and head is not None:
                self._ids = self.data[head.ids_at : head.planes_at]
            elif head is None and self.names is not None:
                return np.array(list(self.names.entities), "<u8").tobytes()
        return self._ids

    @property
    def schema(self) -> int:
        """Hash of the columns."""
        if self._schema is None and self.head is not None:
            self._schema = self.head.schema
        if self._schema is not None:
            return self._schema
        return self.names.schema if self.names is not None else 0

    @property
    def metrics(self) -> Sequence[Metric]:
        """The columns."""
        if self.head is None:
            return self.names.table.metrics if self.names is not None else ()
        if self.names is None:
            return [nameless_metric(self.head.schema, column) for column in range(self.head.metrics)]
        return self.names.metrics_of(self.head.schema, self.head.metrics)

    @property
    def entities(self) -> Sequence[Entity]:
        """The rows."""
        if self.names is None:
            return [nameless_entity(key) for key in self.ids.tolist()]
        return self.names.entities_of(self.raw_ids)

    @property
    def shape(self) -> tuple[int, int]:
        """Entities and metrics."""
        columns = self.head.metrics if self.head is not None else len(self.metrics)
        return len(self.raw_ids) // 8, columns

    def record(self) -> SmoothedRecord | None:
        """The decoded record, or None if the block has no values."""
        if self._record is None and self.has_values:
            self._record = smoothed.decode(self.data, self.head)
        return self._record

    def plane(self, name: str) -> Floats:
        """A plane by name, as stored, float32 (n, m); NaN if there is no value. Smoothed values are the
        state to continue from, however long ago the last valid value was: ``shown`` and ``figure`` omit old ones."""
        if self.has_values:
            cube, index = self._cube or self._decoded()
            place = index.get(name)
            if place is not None:
                found: Floats = cube[place]
                return found
        return np.full(self.shape, np.nan, np.float32)

    def _decoded(self) -> tuple[Floats, dict[str, int]]:
        self._cube = smoothed.cube(self.data)
        return self._cube

    def shown(self, plane: Plane) -> Floats:
        """As ``plane``, but NaN also for smoothed values that are stale (``ticks.stale_after``)."""
        stored, old = self.plane(plane.name), self._old()
        if old is None or plane.raw:
            return stored
        kept = stored.copy()
        kept.flat[old] = np.nan
        return kept

    def _old(self) -> npt.NDArray[np.uint32] | None:
        """Places (row x columns + column) of samples with a stale last valid value; None if there are none.
        Samples that never were valid have no average anyway."""
        record = self.record() if self.head is not None and self.head.exceptions else None
        if record is None:
            return None
        ages = record.exceptions["age"]
        old = ~(ages <= ticks.stale_after(self.interval)) & (ages != _INFINITY)
        return record.exceptions["index"][old] if old.any() else None

    def figure(self, plane: Plane) -> Floats:
        """Figures of a plane as shown, float32 (n, m); NaN if there is no value."""
        return plane.figures(self.shown(plane))

    @property
    def extra_planes(self) -> tuple[Plane, ...]:
        """Planes of its newest record that are not part of shardpulse (acquisition.wire.records.planes)."""
        return self.head.extra_planes if self.head is not None else ()

    def codes(self) -> npt.NDArray[np.uint8]:
        """Validity codes, uint8 (n, m); ``absence`` throughout if the block has no values."""
        record = self.record()
        return record.codes() if record is not None else np.full(self.shape, self.absence, np.uint8)

    @property
    def absence(self) -> int:
        """Code of a value missing in the block: LATE if only one of an older tick is there, MISSING if
        nothing is known, if the host is down, and if no frame of it carries the value."""
        late = self.state in (LATE, UNKNOWN) and not self.has_values and self.position is not None and self.wall
        return codes.LATE if late else codes.MISSING

    def stale_seconds(self) -> Floats:
        """Seconds from each sample's last valid value to the block's tick, float32 (n, m).

        0 if the sample is valid, infinite if there never was a valid one, NaN if
        the block has no values.
        """
        record = self.record()
        return record.ages() if record is not None else np.full(self.shape, np.nan, np.float32)


#: A member with its block.
Begun = tuple[Member, Block]
