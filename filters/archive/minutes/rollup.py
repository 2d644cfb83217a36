"""Rollup of one minute: accumulators per entity and metric, as arrays (pure).

A frame is folded in by ``_fold.c``, if that could be compiled (``acquisition.compiled``); otherwise, and if samples
are kept for percentiles, frames are gathered and folded in several at a time by numpy. The order of frames affects
only the last bits of mean and sum of squares; the newest valid value is that of the newest tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from acquisition import compiled
from acquisition.model.codes import CODE_MASK, VALID
from filters.archive.minutes import sketch
from filters.archive.minutes.sketch import Sketch
from filters.archive.minutes.values import Floats, Ids, Statistic

_TOGETHER = 16  #: frames; a call of numpy costs as much as some thousand values
_NO_TICK = np.iinfo(np.int64).min
#: An invalid sample of a frame: its place, row by row, its code and its original value.
INVALID = np.dtype([("cell", "<u4"), ("code", "<u4"), ("value", "<f4")])


def _native() -> Callable[..., bytes] | None:
    if compiled.switched_off():
        return None
    try:
        from filters.archive.minutes import _fold
    except ImportError:
        return None
    places = {f"Invalid.{name}": field[1] for name, field in (INVALID.fields or {}).items()}
    compiled.agree(compiled.complete(_fold, "fold"), {"sizeof Invalid": INVALID.itemsize, **places})
    return _fold.fold


FOLD = _native()


class Rollup:
    """Accumulators of ``metrics`` columns; rows are entities in order of arrival.

    Samples of the ``kept`` columns are stored unchanged until ``planes`` computes percentiles from them.
    """

    def __init__(self, metrics: int, kept: Sequence[int] = ()) -> None:
        self.metrics = metrics
        self._columns = np.array(kept, np.int16)
        self._kept: list[tuple[npt.NDArray[np.intp], Floats]] = []  #: rows, samples x rows x columns
        self.frames = 0
        self.samples = 0
        self.tick = _NO_TICK  #: the newest
        self._ids = np.zeros(0, np.uint64)
        self._rows: dict[int, int] = {}
        self._known = b""  #: ids of the waiting frames
        self._where: npt.NDArray[np.intp] = np.zeros(0, np.intp)  #: their rows
        self._rows_given: bytes | npt.NDArray[np.intp] = b""  #: the same, empty if rows are consecutive
        self._fold_one = None if kept else FOLD
        self._waiting: list[tuple[int, Floats]] = []
        self._count = np.zeros((0, metrics))
        self._valid = np.zeros((0, metrics))
        self._mean = np.zeros((0, metrics))
        self._squares = np.zeros((0, metrics))
        self._low = np.full((0, metrics), np.nan, np.float32)
        self._high = np.full((0, metrics), np.nan, np.float32)
        self._last = np.full((0, metrics), np.nan, np.float32)
        self._last_tick = np.full((0, metrics), _NO_TICK, np.int64)

    def add(self, tick: int, ids: bytes, values: bytes, codes: bytes = b"") -> bytes:
        """Add a frame of n entities: ``ids`` are uint64, ``values`` float32 (n, metrics), ``codes`` uint8 (n, metrics)
        or empty. Returns its invalid samples as concatenated ``INVALID`` records."""
        if ids != self._known:
            self._fold()
            self._known, self._where = ids, self.rows_of(ids)
            one_by_one = np.array_equal(self._where, np.arange(len(self._where)))
            self._rows_given = b"" if one_by_one else self._where
        invalid = self._gather(tick, values, codes) if self._fold_one is None else self._fold_one(
            self._count, self._valid, self._mean, self._squares, self._low, self._high, self._last, self._last_tick,
            values, codes, self._rows_given, self.metrics, tick, CODE_MASK,
        )  # fmt: skip
        self.frames += 1
        self.samples += len(values) // 4
        self.tick = max(self.tick, tick)
        return invalid

    def _gather(self, tick: int, data: bytes, codes: bytes) -> bytes:
        values, invalid = np.frombuffer(data, "<f4"), b""
        if codes:
            plain = np.frombuffer(codes, np.uint8) & CODE_MASK
            cells = (plain != VALID).nonzero()[0]
            found = np.empty(len(cells), INVALID)
            found["cell"], found["code"], found["value"] = cells, plain[cells], values[cells]
            invalid, values = found.tobytes(), values.copy()
            values[cells] = np.nan
        self._waiting.append((tick, values.reshape(-1, self.metrics)))
        if len(self._waiting) >= _TOGETHER:
            self._fold()
        return invalid

    @property
    def ids(self) -> Ids:
        """Entities, uint64."""
        return self._ids

    @property
    def valid(self) -> npt.NDArray[np.float64]:
        """Number of valid samples of each cell."""
        self._fold()
        return self._valid

    def planes(self) -> Floats:
        """float32 (len(Statistic), n, metrics), NaN for missing values."""
        self._fold()
        some = self._valid > 0
        found = np.full((len(Statistic), *self._count.shape), np.nan, np.float32)
        found[Statistic.COUNT] = self._count
        found[Statistic.VALID] = self._valid
        found[Statistic.MEAN] = np.where(some, self._mean, np.nan)
        deviation = np.sqrt(self._squares / np.maximum(self._valid, 1.0))
        found[Statistic.DEVIATION] = np.where(some, deviation, np.nan)
        found[Statistic.LOW], found[Statistic.HIGH], found[Statistic.LAST] = self._low, self._high, self._last
        if self._kept:
            samples = np.sort(self._samples(), 0)  # NaN last
            rank = sketch.rank_of(np.isfinite(samples).sum(0))
            found[Statistic.P95][:, self._columns] = np.take_along_axis(samples, np.maximum(rank - 1, 0)[None], 0)[0]
        return found

    def keep_only(self, columns: Iterable[int]) -> None:
        """Drop the samples of all other columns."""
        self._fold()
        chosen = np.isin(self._columns, list(columns))
        self._columns = self._columns[chosen]
        self._kept = [(where, part[:, :, chosen]) for where, part in self._kept] if chosen.any() else []

    def sketch(self) -> Sketch | None:
        """Samples of the kept columns, for percentiles over longer times; None without such columns."""
        self._fold()
        return sketch.of_values(self._ids, self._columns, self._samples()) if self._kept else None

    def _samples(self) -> Floats:
        """Samples x entities x kept columns, NaN where missing."""
        made = np.full((sum(len(part) for _, part in self._kept), len(self._ids), len(self._columns)), np.nan, "f4")
        first = 0
        for where, part in self._kept:
            made[first : first + len(part), where] = part
            first += len(part)
        return made

    def rows_of(self, data: bytes) -> npt.NDArray[np.intp]:
        """Rows of entities, including new ones: ``data`` are n uint64."""
        ids, rows = np.frombuffer(data, "<u8"), self._rows
        fresh = [key for key in dict.fromkeys(ids.tolist()) if key not in rows]
        if fresh:
            for key in fresh:
                rows[key] = len(rows)
            self._ids = np.concatenate([self._ids, np.array(fresh, np.uint64)])
            self._grow(len(fresh))
        return np.array([rows[key] for key in ids.tolist()], np.intp)

    def _grow(self, count: int) -> None:
        def more(array: npt.NDArray[np.generic], fill: float) -> npt.NDArray[np.generic]:
            return np.concatenate([array, np.full((count, self.metrics), fill, array.dtype)])

        for name in ("_count", "_valid", "_mean", "_squares"):
            setattr(self, name, more(getattr(self, name), 0.0))
        for name in ("_low", "_high", "_last"):
            setattr(self, name, more(getattr(self, name), np.nan))
        self._last_tick = np.concatenate([self._last_tick, np.full((count, self.metrics), _NO_TICK, np.int64)])

    def _fold(self) -> None:
        if not self._waiting:
            return
        self._waiting.sort(key=lambda frame: frame[0])
        ticks = np.array([tick for tick, _ in self._waiting], np.int64)
        stack = np.stack([values for _, values in self._waiting])
        self._waiting = []
        if len(set(self._where.tolist())) == len(self._where):
            self._merge(self._where, ticks, stack)
        else:  # an entity twice in one frame: its rows are added one after the other
            for row, place in enumerate(self._where):
                self._merge(np.array([place]), ticks, stack[:, row : row + 1])

    def _merge(self, where: npt.NDArray[np.intp], ticks: npt.NDArray[np.int64], stack: Floats) -> None:
        """Chan, Golub, LeVeque 1983, (2.1): merge two sets of samples."""
        good = np.isfinite(stack)
        if len(self._columns):
            kept = np.where(good, stack, np.float32("nan"))[:, :, self._columns]
            self._kept.append((where, kept))
        added = good.sum(0, dtype=np.float64)
        filled = np.where(good, stack, 0.0).astype(np.float64)
        mean = filled.sum(0) / np.maximum(added, 1.0)
        squares = np.where(good, (filled - mean) ** 2, 0.0).sum(0)
        before = self._valid[where]
        total = before + added
        apart = mean - self._mean[where]
        share = added / np.maximum(total, 1.0)
        self._mean[where] += apart * share
        self._squares[where] += squares + apart**2 * before * share
        self._valid[where] = total
        self._count[where] += len(ticks)
        only = np.where(good, stack, np.nan)
        self._low[where] = np.fmin(self._low[where], np.fmin.reduce(only, 0))
        self._high[where] = np.fmax(self._high[where], np.fmax.reduce(only, 0))
        newest = len(ticks) - 1 - np.argmax(good[::-1], 0)
        tick = np.where(added > 0, ticks[newest], _NO_TICK)
        newer = (added > 0) & (tick >= self._last_tick[where])
        value = np.take_along_axis(stack, newest[None], 0)[0]
        self._last[where] = np.where(newer, value, self._last[where])
        self._last_tick[where] = np.where(newer, tick, self._last_tick[where])
