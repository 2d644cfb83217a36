"""Decision inputs of the blocks of a snapshot, decoded without further reads.

::

    with SnapshotReader.connect() as reader:
        snapshot = reader.coherent()
        inputs = reader.inputs(snapshot)
        for block in snapshot.blocks:
            table = inputs.get((block.host_id, block.set_id))  # None: nothing configured, or no values
            if table is not None:
                print([table.inputs(row, "cpu_ratio") for row in range(table.rows)])
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError
from acquisition.model.derived import CPU
from acquisition.model.inputs import Bursts, DecisionInputs
from acquisition.snapshot.values.block import Block, finite
from acquisition.snapshot.values.members import Owner
from acquisition.wire.records import inputs as wire
from acquisition.wire.records import smoothed

Figures = npt.NDArray[np.float32] | npt.NDArray[np.uint8]
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_NO_PLATEAU, _NO_ORDER = (None,) * 2, (None,) * 4


class DerivedReading(NamedTuple):
    """Reading of a derived metric, which no frame carries; None if there is no value.

    ``stale_seconds`` runs from the last valid value to this tick; None: there never was one.
    """

    mean: float | None
    variance: float | None
    trend: float | None
    last: float | None
    code: int
    stale_seconds: float | None


class InputsTable:
    """Decision inputs of one resource set at one tick; rows are in the order of the block's.

    ``record`` are the bytes of a checked record with its ``whole`` header, ``head`` that of its section; the section is
    decoded when more than single rows of it are used.
    """

    __slots__ = ("_at", "_data", "_record", "_section", "_whole", "columns", "head", "metrics", "rows")

    def __init__(self, head: wire.Head, whole: smoothed.Head, record: bytes) -> None:
        self.head = head
        self._whole = whole
        self._record = record
        self._data = smoothed.section(record, whole)
        self._at = head.places(whole.entities)
        self._section: wire.Section | None = None
        self.rows = whole.entities
        #: Metrics with decision inputs; the last ones may be derived.
        self.metrics: tuple[str, ...] = wire.names_of(head, whole.entities, self._data)
        #: Place of each metric in the section's planes.
        self.columns = _places(self.metrics)

    @property
    def section(self) -> wire.Section:
        """The decoded section."""
        if self._section is None:
            self._section = wire.decode(self._data, self.rows, self.head)
        return self._section

    @property
    def ids(self) -> npt.NDArray[np.uint64]:
        """Entity ids, uint64 (E,)."""
        return np.frombuffer(self._record, "<u8", self.rows, self._whole.ids_at)

    def is_derived(self, metric: str) -> bool:
        """Whether no frame carries the metric."""
        return self.columns.get(metric, -1) >= self.head.columns - self.head.derived

    def plane(self, name: str, metric: str) -> Figures:
        """One of the figures (float32) or counts (uint8) of ``acquisition.wire.records.inputs`` of a metric, (E,).
        Raises KeyError for an unknown one, and for one that is not kept."""
        column = self.columns[metric]
        found: Figures = self.section.tally(name)[column] if name in wire.COUNTS else self.section.figure(name)[column]
        return found

    def warming(self) -> npt.NDArray[np.bool_]:
        """Boolean mask of entities whose windows are not full yet, shape (E,)."""
        return self.section.seen < self.head.window

    def inputs(self, row: int, metric: str) -> DecisionInputs | None:
        """Inputs of one row; None for a metric without any, and for a row beyond the last."""
        column, head, data, at = self.columns.get(metric), self.head, self._data, self._at
        if column is None or not 0 <= row < self.rows:
            return None
        cell, cells = column * self.rows + row, head.columns * self.rows
        names = wire.figure_names(head.figures)
        cusum, time_above, *others = _strided(cells, len(names)).unpack_from(data, at.figures + 4 * cell)
        known = list(map(finite, others))
        lowest, highest = known[:2] if head.figures & wire.PLATEAU else _NO_PLATEAU
        median, mad, q1, q3 = known[-4:] if head.figures & wire.ORDER_STATISTICS else _NO_ORDER
        valid, counted, above = data[at.counts + cell : at.counts + len(wire.COUNTS) * cells : cells]
        return DecisionInputs(
            head.window, valid, above, _FLOAT.unpack_from(data, at.thresholds + 4 * column)[0], time_above, cusum,
            median, mad, q1, q3, _DOUBLE.unpack_from(data, at.since + 8 * row)[0], data[at.seen + row] < head.window,
            head.counted, counted, head.plateau, lowest, highest, bool(head.figures & wire.ORDER_STATISTICS),
            head.window_seconds, head.counted_seconds, head.plateau_seconds,
            self._bursts(row) if head.bursts and metric == CPU else None,
        )  # fmt: skip

    def _bursts(self, row: int) -> Bursts:
        kept = _strided(self.rows, self.head.bursts).unpack_from(self._data, self._at.bursts + 4 * row)
        opened, _, held, _, since, last, period, regular, *slots = kept
        longest, count, height = (slots[at : at + wire.BURST_SLOTS] for at in range(0, len(slots), wire.BURST_SLOTS))
        return Bursts(opened, held, round(sum(count)), max(longest), max(height), period, round(regular), since, last)

    def derived(self, row: int, metric: str) -> DerivedReading | None:
        """Whole reading of a derived metric; None for others."""
        if not self.is_derived(metric) or not 0 <= row < self.rows:
            return None
        head, at = self.head, self._at
        cell = (self.columns[metric] - (head.columns - head.derived)) * self.rows + row
        offset, stride = at.derived + 4 * cell, head.derived * self.rows
        last, mean, variance, trend, age = _strided(stride, len(wire.DERIVED_PLANES)).unpack_from(self._data, offset)
        known = math.isfinite(mean)
        return DerivedReading(
            finite(mean),
            finite(variance) if known else None,
            finite(trend) if known else None,
            finite(last),
            self._data[at.codes + cell],
            age if known else None,
        )


def tables_of(blocks: Iterable[Block]) -> dict[Owner, InputsTable]:
    """Decision inputs of the blocks with values, decoded.

    A resource set is absent if nothing is configured, or if its section is invalid: rules then abstain.
    """
    tables = ((block, table_of(block)) for block in blocks)
    return {(block.host_id, block.set_id): table for block, table in tables if table is not None}


def table_of(block: Block) -> InputsTable | None:
    """Decision inputs in the record of ``block``, if it has values and they are valid."""
    whole = block.head
    if whole is None or not block.has_values or not whole.inputs_size:
        return None
    try:
        head = wire.check(smoothed.section(block.data, whole), whole.entities)
    except FrameError:
        return None
    return InputsTable(head, whole, block.data)


@lru_cache(4096)
def _strided(stride: int, count: int) -> struct.Struct:
    """Struct that unpacks one element of each of ``count`` planes of ``stride`` elements."""
    return struct.Struct("<" + f"{4 * (stride - 1)}x".join("f" * count))


@lru_cache(1024)
def _places(names: tuple[str, ...]) -> dict[str, int]:
    """Column of each name; the result is read-only."""
    return {name: column for column, name in enumerate(names)}
