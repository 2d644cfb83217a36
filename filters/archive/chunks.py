"""An entity's figures of an hour or more as small integers: code x step + offset. Pure.

A code is of 16 bits, -32768 says that there is no figure. ``offset`` is the middle between the lowest and the highest
figure of the chunk and ``step`` 1/65534 of their distance, so a figure is off by half a step at most: 1/131,068 of how
far the figures of the chunk lie apart (and the rounding of float32). Counts have step 1 and are exact. Where all
figures of a statistic are the same, or there are none, no codes are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from filters.archive.values import Floats, Statistic

NONE = -32768
_MOST = 32767
_SMALLEST, _LARGEST = np.float32(1e-45), float(np.finfo(np.float32).max)


class Chunks(NamedTuple):
    """Of entities: ``offsets`` and ``steps`` are entities x statistics x metrics, ``codes`` x slots beside it;
    ``plain`` entities x statistics, true where no codes are needed."""

    offsets: Floats
    steps: Floats
    codes: npt.NDArray[np.int16]
    plain: npt.NDArray[np.bool_]


def encode(values: Floats) -> Chunks:
    """The chunks of entities x statistics x metrics x slots; what is not finite counts as none."""
    there = np.isfinite(values)
    low = np.where(there, values, np.inf).min(-1).astype(np.float64)
    high = np.where(there, values, -np.inf).max(-1).astype(np.float64)
    none = ~there.any(-1)
    low[none] = high[none] = np.nan
    offsets = ((low + high) / 2).astype(np.float32)
    offsets[:, : Statistic.MEAN] = np.floor(offsets[:, : Statistic.MEAN])  # counts
    reach = np.maximum(high - offsets, offsets - low)
    steps = np.where(reach > 0, np.maximum((reach / _MOST).astype(np.float32), _SMALLEST), np.float32(0))
    counts = steps[:, : Statistic.MEAN]
    counts[(counts > 0) & (counts < 1)] = 1
    with np.errstate(invalid="ignore", divide="ignore"):
        codes = np.rint((values - offsets[..., None].astype(np.float64)) / steps[..., None])
    codes = np.where(steps[..., None] > 0, np.clip(codes, -_MOST, _MOST), 0)
    plain = (none | (there.all(-1) & (steps == 0))).all(-1)
    return Chunks(offsets, steps, np.where(there, codes, NONE).astype(np.int16), plain)


def decode(offsets: Floats, steps: Floats, codes: npt.NDArray[np.int16]) -> Floats:
    """The figures of one entity, statistics x metrics x slots; ``codes`` of plain statistics are 0."""
    figures = codes * steps[..., None].astype(np.float64) + offsets[..., None]
    return np.where(codes == NONE, np.nan, np.clip(figures, -_LARGEST, _LARGEST)).astype(np.float32)
