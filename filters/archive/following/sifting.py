"""Sifting of a batch: finds the rows that cannot be stored (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from filters.archive.minutes.values import Batch, Event, MinuteMatrix, Statistic

_ROWS = Batch._fields[1:]
_LONGEST_REASON = 300


def refused(batch: Batch, accepts: Callable[[Batch], bool]) -> list[Any]:
    """Rows to remove so that ``accepts`` takes the rest: by bisection, so that a few among many are found soon."""
    found: list[Any] = []
    for name in _ROWS:
        found += _search(name, getattr(batch, name), accepts)
    return found


def without(batch: Batch, rows: Sequence[Any], reason: str) -> Batch:
    """The batch with each of these rows replaced by an event."""
    gone = {id(row) for row in rows}
    left = {name: tuple(row for row in getattr(batch, name) if id(row) not in gone) for name in _ROWS}
    return batch._replace(**{**left, "events": left["events"] + tuple(_event(row, reason) for row in rows)})


def _search(name: str, rows: Sequence[Any], accepts: Callable[[Batch], bool]) -> list[Any]:
    if not rows or accepts(Batch((), **{name: tuple(rows)})):
        return []
    if len(rows) == 1:
        return [rows[0]]
    half = len(rows) // 2
    return _search(name, rows[:half], accepts) + _search(name, rows[half:], accepts)


def _event(row: Any, reason: str) -> Event:
    details: dict[str, Any] = {"row": type(row).__name__, "reason": ascii(reason)[:_LONGEST_REASON]}
    moment, host = 0.0, getattr(row, "host", None)
    if isinstance(row, MinuteMatrix):
        host, moment = row.series.host, float(row.minute)
        details |= {"resource_set": row.series.resource_set, "samples": int(row.values[Statistic.COUNT].sum())}
    for name in ("start", "time", "appeared", "first", "since"):
        found = getattr(row, name, None)
        moment = float(found) if isinstance(found, int | float) else moment
    return Event(moment, "not_stored", host, None, details)
