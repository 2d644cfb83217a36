"""Quantile sketch: counts of values in logarithmic buckets; mergeable (pure).

After Masson, Rim, Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees" (2019):
bucket i holds values in (gamma^(i-1), gamma^i], and its value is 2 gamma^i / (gamma + 1), so the error of a percentile
is at most 1% of it, however many sketches were added. Buckets of negative values are those of their magnitudes,
negated; magnitudes below 1e-30 count as 0. No buckets are dropped: all of float32 has 6,400.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from filters.archive.minutes.values import Floats, Ids

ERROR = 0.01  #: relative, of a percentile
_GAMMA = (1 + ERROR) / (1 - ERROR)
_LOG_GAMMA = float(np.log(_GAMMA))
_SMALLEST = 1e-30
_ZERO = int(np.ceil(np.log(_SMALLEST) / _LOG_GAMMA)) - 1  #: bucket i of positive values has number i - _ZERO >= 1


class Sketch(NamedTuple):
    """Cells (entity, metric), sorted by entity, place and bucket: number of values per bucket.

    One row per non-empty bucket: ``entities`` uint64, ``places`` int16 (the column of the metric), ``buckets``
    int16 in the order of their values, ``counts`` uint32.
    """

    entities: Ids
    places: npt.NDArray[np.int16]
    buckets: npt.NDArray[np.int16]
    counts: npt.NDArray[np.uint32]

    def encode(self) -> bytes:
        """Bytes: 8 + 2 + 2 + 4 per row, column by column, little-endian."""
        columns: tuple[npt.NDArray[Any], ...] = self
        return b"".join(column.astype(kind).tobytes() for column, kind in zip(columns, _KINDS, strict=True))

    @classmethod
    def decode(cls, data: bytes) -> Sketch:
        """Inverse of ``encode``."""
        rows, at, columns = len(data) // _WIDTH, 0, list[npt.NDArray[Any]]()
        for kind in _KINDS:
            columns.append(np.frombuffer(data, kind, rows, at))
            at += rows * np.dtype(kind).itemsize
        return cls(*columns)

    def percentiles(self, ids: Ids, metrics: int) -> Floats:
        """float32 (entities, metrics) by nearest rank; NaN if there is no value. ``ids`` are sorted."""
        made = np.full((len(ids), metrics), np.nan, np.float32)
        if not len(self.counts):
            return made
        fresh = np.r_[True, (self.entities[1:] != self.entities[:-1]) | (self.places[1:] != self.places[:-1])]
        firsts = np.flatnonzero(fresh)
        cells = np.cumsum(fresh) - 1
        upto = np.cumsum(self.counts, dtype=np.int64)
        before = upto[firsts] - self.counts[firsts]
        total = np.diff(np.r_[before, upto[-1]])
        reached = upto >= (before + rank_of(total))[cells]
        found = np.flatnonzero(reached & np.r_[True, ~reached[:-1] | fresh[1:]])
        rows = np.searchsorted(ids, self.entities[found])
        made[rows, self.places[found]] = _value(self.buckets[found])
        return made


_KINDS = ("<u8", "<i2", "<i2", "<u4")
_WIDTH = sum(np.dtype(kind).itemsize for kind in _KINDS)


def rank_of(counts: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Nearest rank of the 95th percentile of ``counts`` values, 1 for the lowest: the smallest integer that is at least
    0.95 n."""
    return (counts.astype(np.int64) * 19 + 19) // 20


def of_values(ids: Ids, places: npt.NDArray[np.int16], values: Floats) -> Sketch:
    """The sketch of values, samples x entities x metrics; ``places`` are the columns of these metrics."""
    samples, rows, columns = np.nonzero(np.isfinite(values))
    return _counted(ids[rows], places[columns], _bucket(values[samples, rows, columns]), np.ones(len(rows), np.uint32))


def added(sketches: Iterable[Sketch]) -> Sketch | None:
    """Sketch of all values together; None without sketches."""
    all_of_them = tuple(sketches)
    if len(all_of_them) < 2:
        return all_of_them[0] if all_of_them else None
    entities, places, buckets, counts = (np.concatenate(column) for column in zip(*all_of_them, strict=True))
    return _counted(entities, places, buckets, counts)


def _counted(
    entities: Ids, places: npt.NDArray[np.int16], buckets: npt.NDArray[np.int16], counts: npt.NDArray[np.uint32]
) -> Sketch:
    order = np.lexsort((buckets, places, entities))
    entities, places, buckets, counts = entities[order], places[order], buckets[order], counts[order]
    other = (entities[1:] != entities[:-1]) | (places[1:] != places[:-1]) | (buckets[1:] != buckets[:-1])
    firsts = np.flatnonzero(np.r_[np.full(min(1, len(order)), True), other])
    summed = np.add.reduceat(counts, firsts) if len(firsts) else counts
    return Sketch(entities[firsts], places[firsts], buckets[firsts], summed.astype(np.uint32))


def _bucket(values: Floats) -> npt.NDArray[np.int16]:
    size = np.abs(values.astype(np.float64))
    large = size >= _SMALLEST
    index = np.ceil(np.log(np.where(large, size, 1.0)) / _LOG_GAMMA) - _ZERO
    return np.where(large, np.copysign(index, values), 0).astype(np.int16)


def _value(buckets: npt.NDArray[np.int16]) -> Floats:
    size = 2 * np.exp((np.abs(buckets.astype(np.float64)) + _ZERO) * _LOG_GAMMA) / (_GAMMA + 1)
    size = np.minimum(size, np.finfo(np.float32).max)
    return np.where(buckets == 0, 0.0, np.copysign(size, buckets)).astype(np.float32)
