"""Column questions of checks and frames, one pass over a reading each.

``values`` are float64, row by row (``Reading.values``). ``_columns.c`` does the same if it could be compiled:
``probes.sampling.native.COLUMNS`` is one of the two.
"""

from __future__ import annotations

from array import array
from itertools import compress
from math import isnan
from operator import add, eq, sub

from acquisition.model.codes import VALID


def outside(values: array[float], lows: array[float], highs: array[float]) -> list[int]:
    """Columns with a value below the column's low or above its high; NaN is neither."""
    if not values:
        return []
    width = len(lows)
    suspect = isnan(sum(values))  # a NaN somewhere: min() and max() may miss values next to it
    found = []
    for column in range(width):
        figures = values[column::width]
        if suspect and isnan(sum(figures)):
            figures = array("d", compress(figures, map(eq, figures, figures)))
        if figures and (min(figures) < lows[column] or max(figures) > highs[column]):
            found.append(column)
    return found


def unmarked(values: array[float], codes: bytearray) -> bool:
    """Whether some value is NaN and its code VALID."""
    return isnan(sum(values)) and any(code == VALID and isnan(value) for code, value in zip(codes, values, strict=True))


def unbalanced(values: array[float], width: int, one: int, two: int, three: int, whole: int, tolerance: float) -> bool:
    """Whether in some row three columns together differ from the fourth by more than ``tolerance``, or one is NaN."""
    if not values:
        return False
    sums = map(add, map(add, values[one::width], values[two::width]), values[three::width])
    off = list(map(sub, sums, values[whole::width]))
    return isnan(sum(off)) or not -tolerance <= min(off) <= max(off) <= tolerance


def pack(values: array[float]) -> bytes:
    """The values as float32 in native order; values that do not fit become infinite."""
    return array("f", values).tobytes()
