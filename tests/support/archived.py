"""Reference archive: a table of rows in memory, merged as specified."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from acquisition.model.codes import CODE_MASK
from acquisition.wire import frame as wire
from acquisition.wire.frame import Frame
from filters.archive.minutes.values import Batch, Cursor, Episode, Event, Series, Statistic

Cell = tuple[Series, int, int, int]  #: series, minute, entity, column


class Kept(NamedTuple):
    """One cell of a rollup; ``tick`` is the newest of the matrix that ``last`` is of."""

    count: float
    valid: float
    mean: float
    squares: float
    low: float
    high: float
    last: float
    tick: int


def merged(one: Kept, other: Kept) -> Kept:
    """Two sets of samples, in doubles."""
    if not one.valid or not other.valid:
        some = one if one.valid else other
        return some._replace(count=one.count + other.count)
    valid = one.valid + other.valid
    apart = other.mean - one.mean
    newer = one if one.tick > other.tick else other
    return Kept(
        one.count + other.count, valid, one.mean + apart * other.valid / valid,
        one.squares + other.squares + apart**2 * one.valid * other.valid / valid,
        min(one.low, other.low), max(one.high, other.high), newer.last, newer.tick,
    )  # fmt: skip


class Rows:
    """What a store would hold; ``commit`` is its guarded transaction."""

    def __init__(self) -> None:
        self.cells: dict[Cell, Kept] = {}
        self.mended: set[Cell] = (
            set()
        )  #: cells of late frames: ``last`` is that of the newer matrix, not of the newer sample
        self.episodes: dict[tuple[object, ...], Episode] = {}
        self.events: set[str] = set()
        self.cursor = Cursor(0)
        self.gaps = 0
        self.entities: dict[int, float | None] = {}

    def commit(self, batch: Batch) -> bool:
        """Write it, unless somebody else has committed."""
        (advance,) = batch.advances
        if advance.previous != self.cursor.commit_id:
            return False
        for matrix in batch.minutes:
            for row, entity in enumerate(matrix.ids.tolist()):
                for column in range(matrix.values.shape[2]):
                    self._merge(
                        (matrix.series, matrix.minute, entity, column), matrix.values[:, row, column], matrix.tick
                    )
        for episode in batch.episodes:
            self.episodes[episode[:6]] = episode
        for event in batch.events:
            self._event(event)
        for entity_row in batch.entities:
            self.entities[entity_row.entity] = entity_row.vanished
        self.cursor = Cursor(advance.partition, advance.commit_id, advance.entry, advance.state)
        return True

    def _event(self, event: Event) -> None:
        text = json.dumps([event.time, event.kind, event.host, event.entity, dict(event.details)], sort_keys=True)
        if text not in self.events:
            self.events.add(text)
            self.gaps += event.details["samples"] if event.kind in {"gap", "loss", "shed"} else 0

    def _merge(self, cell: Cell, planes: np.ndarray, tick: int) -> None:
        values = [float(value) for value in planes]
        squares = values[Statistic.DEVIATION] ** 2 * values[Statistic.VALID]
        found = Kept(
            values[Statistic.COUNT], values[Statistic.VALID], values[Statistic.MEAN], squares,
            values[Statistic.LOW], values[Statistic.HIGH], values[Statistic.LAST], tick,
        )  # fmt: skip
        before = self.cells.get(cell)
        self.cells[cell] = found if before is None else merged(before, found)
        if before is not None:
            self.mended.add(cell)


def reference(frames: Iterable[Frame]) -> dict[Cell, Kept]:
    """The rows that these frames, each once and one after the other, must give."""
    cells: dict[Cell, Kept] = {}
    for frame in frames:
        if frame.kind != wire.KIND_SAMPLES:
            continue
        series = Series(frame.host, frame.resource_set, frame.epoch, frame.schema)
        minute = int(frame.tick * frame.interval // 60) * 60
        values = np.frombuffer(frame.values, "<f4").reshape(frame.entities, frame.metrics)
        codes = np.frombuffer(frame.codes or bytes(frame.samples), np.uint8).reshape(values.shape) & CODE_MASK
        for row, entity in enumerate(np.frombuffer(frame.ids, "<u8").tolist()):
            for column in range(frame.metrics):
                value = float(values[row, column])
                good = codes[row, column] == 0
                one = (
                    Kept(1, 1, value, 0.0, value, value, value, frame.tick)
                    if good
                    else Kept(1, 0, math.nan, 0.0, math.nan, math.nan, math.nan, frame.tick)
                )
                cell = (series, minute, entity, column)
                cells[cell] = merged(cells[cell], one) if cell in cells else one
    return cells


def assert_equal(rows: Rows, wanted: dict[Cell, Kept]) -> None:
    """The same cells; float32 is what a rollup has."""
    assert rows.cells.keys() == wanted.keys()
    for cell, one in wanted.items():
        other = rows.cells[cell]
        assert other[:2] == one[:2], cell
        if one.valid:
            for name in ("mean", "low", "high", "last")[: 3 if cell in rows.mended else 4]:
                assert math.isclose(getattr(other, name), getattr(one, name), rel_tol=1e-5, abs_tol=1e-5), (cell, name)
            spread = max(abs(one.low), abs(one.high), 1.0) ** 2 * one.valid
            assert abs(other.squares - one.squares) <= 1e-4 * spread, cell
