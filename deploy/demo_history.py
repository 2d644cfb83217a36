"""History of the demo's view: the last smoothed values, with sparklines."""

from __future__ import annotations

from collections import deque

from acquisition.snapshot.values.rows import Row
from filters.text.sparkline import bars, full_height


class History:
    """The last ``length`` ticks of each requested row; rows not requested for long are dropped."""

    def __init__(self, length: int = 8) -> None:
        self._length = length
        self._values: dict[tuple[str, str, str, str], deque[tuple[int, float]]] = {}
        self._newest = 0

    def sparkline(self, row: Row) -> str:
        """Bars of a row, the newest on the right; adds the current mean first, once per tick."""
        key = (row.host, row.resource_set, row.id, row.metric)
        values = self._values.setdefault(key, deque(maxlen=self._length))
        if row.mean is not None and (not values or values[-1][0] != row.tick):
            values.append((row.tick, row.mean))
        if row.tick != self._newest:
            self._newest = row.tick
            self._forget(row.tick)
        return bars([value for _, value in values], full_height(row.unit)).rjust(self._length)

    def __len__(self) -> int:
        """Number of rows in the history."""
        return len(self._values)

    def _forget(self, tick: int) -> None:
        old = [key for key, values in self._values.items() if values and abs(tick - values[-1][0]) > 60 * self._length]
        for key in old:
            del self._values[key]
