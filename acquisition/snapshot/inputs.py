"""Reading decision inputs and recent values: what the filter keeps beside the blocks of a snapshot.

::

    with SnapshotReader.connect() as reader:
        snapshot = reader.coherent()
        inputs = reader.inputs(snapshot)
        for block in snapshot.blocks:
            table = inputs.get((block.host_id, block.set_id))  # None: nothing configured, or not of this tick
            if table is not None and (row := table.row_of(entity_id)) is not None:
                print(table.inputs(row, "cpu_ratio"))
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError
from acquisition.link.cluster import Cluster
from acquisition.model import codes, ticks
from acquisition.model.inputs import RECENT_TICKS, DecisionInputs, Recent
from acquisition.snapshot.block import Block
from acquisition.wire import inputs as wire
from acquisition.wire import keys, recent
from acquisition.wire.layout import Layout

#: (host id, resource set id).
Owner = tuple[int, int]


_MEAN = wire.PLANES.index("mean")
_FLOAT, _DOUBLE, _SHORT = struct.Struct("<f"), struct.Struct("<d"), struct.Struct("<H")


class DerivedReading(NamedTuple):
    """What the smoothed state cannot say of a metric that no frame carries; None where there is no value.

    ``stale_seconds`` runs from the last valid value to this tick; None: there never was one.
    """

    mean: float | None
    variance: float | None
    trend: float | None
    last: float | None
    code: int
    stale_seconds: float | None


class InputsTable:
    """The decision inputs of one resource set at one tick; rows are in the order of the block's.

    ``data`` is a checked record with its ``head``, decoded when more than single rows of it are looked at.
    """

    __slots__ = ("_data", "_record", "_rows", "head")

    def __init__(self, head: wire.Head, data: bytes) -> None:
        self.head = head
        self._data = data
        self._record: wire.InputsRecord | None = None
        self._rows: dict[int, int] | None = None

    @property
    def record(self) -> wire.InputsRecord:
        """The decoded record."""
        if self._record is None:
            self._record = wire.decode(self._data)
        return self._record

    @property
    def columns(self) -> dict[str, int]:
        """The place of each metric in the record's planes."""
        return _places(self.metrics)

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.head.entities

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that have decision inputs; the last ones may be derived."""
        return wire.names_of(self.head, self._data)

    def is_derived(self, metric: str) -> bool:
        """Whether no frame carries the metric."""
        return self.columns.get(metric, -1) >= self.head.columns - self.head.derived

    def row_of(self, entity: int) -> int | None:
        """The row of an entity by its id."""
        if self._rows is None:
            self._rows = {known: row for row, known in enumerate(self.record.ids.tolist())}
        return self._rows.get(entity)

    def plane(self, name: str, metric: str) -> wire.Floats:
        """One of ``acquisition.wire.inputs.PLANES`` of a metric, float32 (E,). Raises KeyError for an unknown one."""
        found: wire.Floats = self.record.plane(name)[self.columns[metric]]
        return found

    def warming(self) -> npt.NDArray[np.bool_]:
        """Whose windows are not full yet, (E,)."""
        return self.record.seen < self.head.window

    def inputs(self, row: int, metric: str) -> DecisionInputs | None:
        """The inputs of one row; None for a metric that has none, and for a row beyond the last."""
        column = self.columns.get(metric)
        if column is None or not 0 <= row < self.head.entities:
            return None
        at, window = wire.cells(self.head, column, row), self.head.window
        plateau = self.head.plateau
        figures = self._strided(at.planes, at.stride, wire.plane_count(plateau))
        cusum, time_above, median, mad, q1, q3, _, valid, counted, above, *extremes = figures
        (threshold,) = _FLOAT.unpack_from(self._data, at.threshold)
        (since,) = _DOUBLE.unpack_from(self._data, at.since)
        (seen,) = _SHORT.unpack_from(self._data, at.seen)
        return DecisionInputs(
            window, int(valid), int(above), threshold, time_above, cusum, _number(median), _number(mad), _number(q1),
            _number(q3), since, seen < window, self.head.counted, int(counted), plateau, *map(_number, extremes),
        )  # fmt: skip

    def _strided(self, offset: int, stride: int, count: int) -> list[float]:
        """One element of each of ``count`` planes."""
        found: list[float] = np.frombuffer(self._data, "<f4", stride * (count - 1) + 1, offset)[::stride].tolist()
        return found

    def derived(self, row: int, metric: str) -> DerivedReading | None:
        """The whole reading of a derived metric; None for others."""
        if not self.is_derived(metric):
            return None
        if not 0 <= row < self.head.entities:
            return None
        column, head = self.columns[metric], self.head
        at = wire.derived_cells(head, column - (head.columns - head.derived), row)
        last, variance, trend, age = self._strided(at.planes, at.stride, len(wire.DERIVED_PLANES))
        mean = _number(self._strided(*wire.cells(head, column, row)[3:], _MEAN + 1)[_MEAN])
        known = mean is not None
        return DerivedReading(
            mean,
            _number(variance) if known else None,
            _number(trend) if known else None,
            _number(last),
            self._data[at.code],
            age if known else None,
        )


class ValidValues(NamedTuple):
    """Valid values, oldest first: ``steps`` number their ticks without a break, ``smoothed`` are the moving
    averages at the same ticks."""

    steps: list[int]
    raw: list[float]
    smoothed: list[float]


class RecentTable:
    """The recent ticks of one resource set, oldest first; ticks that never came are not among them."""

    def __init__(self, rows: Sequence[recent.Row], layouts: Mapping[int, recent.RowLayout]) -> None:
        self._rows = rows
        self._layouts = layouts
        self._places: dict[tuple[int, int, str], tuple[int, int] | None] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that have recent values."""
        return tuple(dict.fromkeys(name for layout in self._layouts.values() for name in layout.names))

    def series(self, entity: int, metric: str) -> list[Recent]:
        """What is known of one metric of an entity, which may have come and gone."""
        found = []
        for row in self._rows:
            place = self._place(row.layout, entity, metric)
            if place is not None and place[0] < row.raw.shape[0] and place[1] < row.raw.shape[1]:
                found.append(
                    Recent(
                        row.tick, row.wall, _number(float(row.raw[place])), _number(float(row.mean[place])),
                        int(row.codes[place]),
                    )
                )  # fmt: skip
        return found

    def valid_values(self, entity: int, metric: str, first: int = 0, last: int | None = None) -> ValidValues:
        """The valid ones of the steps from ``first`` to ``last`` (the newest that there is)."""
        found = ValidValues([], [], [])
        for row in self._rows:
            place = self._place(row.layout, entity, metric)
            if place is None or row.step < first or (last is not None and row.step > last):
                continue
            if place[0] >= row.raw.shape[0] or place[1] >= row.raw.shape[1]:
                continue
            raw, mean = float(row.raw[place]), float(row.mean[place])
            if row.codes[place] & codes.CODE_MASK == codes.VALID and math.isfinite(raw) and math.isfinite(mean):
                found.steps.append(row.step)
                found.raw.append(raw)
                found.smoothed.append(mean)
        return found

    def _place(self, layout: int, entity: int, metric: str) -> tuple[int, int] | None:
        key = (layout, entity, metric)
        if key not in self._places:
            known = self._layouts.get(layout)
            place = None
            if known is not None and metric in known.names:
                at = np.flatnonzero(known.ids == np.uint64(entity))
                place = (known.names.index(metric), int(at[0])) if at.size else None
            self._places[key] = place
        return self._places[key]


def read_inputs(cluster: Cluster, layout: Layout, blocks: Iterable[Block]) -> dict[Owner, InputsTable]:
    """The decision inputs of the blocks that have values, of exactly their tick.

    A resource set is absent where nothing is configured, where its shard does not answer, and where the record
    is of another tick or is none: rules then abstain. Raises ShardError when no shard answers at all.
    """
    wanted = [block for block in blocks if block.has_values and block.head is not None]
    groups: dict[str, list[tuple[Block, str]]] = {}
    for block in wanted:
        tag = layout.tag_of(block.host_id)
        slot = ticks.slot_of(block.tick, layout.keep_ticks)
        groups.setdefault(tag, []).append((block, keys.inputs(tag, block.host_id, block.set_id, slot)))
    commands = [(pairs[0][1], ("MGET", *(key for _, key in pairs))) for pairs in groups.values()]
    found: dict[Owner, InputsTable] = {}
    for pairs, reply in zip(groups.values(), cluster.gather(commands), strict=True):
        values = reply if isinstance(reply, list) else _singly(cluster, [key for _, key in pairs], reply)
        for (block, _), data in zip(pairs, values, strict=True):
            table = table_of(block, data)
            if table is not None:
                found[block.host_id, block.set_id] = table
    return found


def read_recent(cluster: Cluster, layout: Layout, owners: Sequence[Owner]) -> dict[Owner, RecentTable]:
    """The recent values of resource sets; those that cannot be read, or have none, are absent.

    Raises ShardError when no shard answers at all.
    """
    names = [keys.recent(layout.tag_of(host), host, resource_set) for host, resource_set in owners]
    replies = cluster.gather([(name, ("HGETALL", name)) for name in names])
    return {
        owner: recent_of(dict(zip(reply[::2], reply[1::2], strict=True)))
        for owner, reply in zip(owners, replies, strict=True)
        if isinstance(reply, list) and reply
    }


def recent_of(fields: Mapping[bytes, bytes]) -> RecentTable:
    """The table of a hash of recent values; fields that are damaged or out of date are passed over."""
    rows: list[recent.Row] = []
    layouts: dict[int, recent.RowLayout] = {}
    for field, data in fields.items():
        try:
            step = recent.layout_of(field)
            if step is None:
                rows.append(recent.decode_row(data))
            else:
                layouts[step] = recent.decode_layout(data)
        except FrameError:
            continue
    rows.sort(key=lambda row: row.step)
    newest = rows[-1].step if rows else 0
    return RecentTable([row for row in rows if row.step > newest - RECENT_TICKS], layouts)


def _singly(cluster: Cluster, names: Sequence[str], reply: Any) -> list[Any]:
    """The values of keys whose partition is on its way to another shard: part of them is here, part there."""
    if not str(reply).startswith("TRYAGAIN"):
        return [None] * len(names)
    return cluster.gather([(name, ("GET", name)) for name in names])


def table_of(block: Block, data: Any) -> InputsTable | None:
    """The table in ``data`` if it is one, of the tick and the rows of ``block``."""
    if not isinstance(data, bytes) or block.head is None:
        return None
    try:
        head = wire.check(data)
    except FrameError:
        return None
    same = (head.host, head.resource_set, head.epoch, head.sequence, head.tick) == (
        block.host_id, block.set_id, block.head.epoch, block.head.sequence, block.tick,
    )  # fmt: skip
    ids = data[wire.HEADER.size : wire.HEADER.size + 8 * head.entities]
    return InputsTable(head, data) if same and ids == block.raw_ids else None


@lru_cache(1024)
def _places(names: tuple[str, ...]) -> dict[str, int]:
    """The column of each name; nobody changes the answer."""
    return {name: column for column, name in enumerate(names)}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
