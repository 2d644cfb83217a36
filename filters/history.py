"""The last few smoothed values of what a view shows, and sparklines of them."""

from __future__ import annotations

from collections import deque

from acquisition.snapshot.rows import Row

_BARS = "▁▂▃▄▅▆▇█"
_UNIT_HIGH = {"ratio": 1.0, "cores": 1.0}  # full height at least: noise of an idle core is no peak


class History:
    """Remembers ``length`` ticks of each row that it is asked about; forgets those not asked about for long."""

    def __init__(self, length: int = 8) -> None:
        self._length = length
        self._values: dict[tuple[str, str, str, str], deque[tuple[int, float]]] = {}
        self._newest = 0

    def sparkline(self, row: Row) -> str:
        """The bars of a row, the newest at the right; takes the row's mean first, once per tick."""
        key = (row.host, row.resource_set, row.id, row.metric)
        values = self._values.setdefault(key, deque(maxlen=self._length))
        if row.mean is not None and (not values or values[-1][0] != row.tick):
            values.append((row.tick, row.mean))
        if row.tick != self._newest:
            self._newest = row.tick
            self._forget(row.tick)
        return bars([value for _, value in values], _UNIT_HIGH.get(row.unit, 0.0)).rjust(self._length)

    def __len__(self) -> int:
        """How many rows are remembered."""
        return len(self._values)

    def _forget(self, tick: int) -> None:
        old = [key for key, values in self._values.items() if values and abs(tick - values[-1][0]) > 60 * self._length]
        for key in old:
            del self._values[key]


def bars(values: list[float], high: float = 0.0) -> str:
    """One bar per value, between zero (or the lowest) and ``high`` (or the highest, where that is more)."""
    if not values:
        return ""
    low, high = min(0.0, *values), max(high, *values)
    if high <= low:
        return _BARS[0] * len(values)
    return "".join(_BARS[min(7, int((value - low) / (high - low) * 8))] for value in values)
