"""Figures: a group of host metrics from one file, and a row of them.

A counter without a predecessor has no rate (FIRST). One that stepped back a little is
jitter and counts as standing still: the kernel's idle, iowait and steal times do that
(proc(5); node_exporter issues 1686 and 2067). One that stepped back by more was reset, and
the interval has no rate (RESET): wrapping around is never assumed, all counters of
/proc have 64 bits.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import Protocol

from acquisition.model.codes import FIRST, MISSING, NAN, RATE, RESET, VALID
from acquisition.model.metric import INFINITY, Metric, ResourceSet

#: metric -> (value, validity code)
Row = dict[str, tuple[float, int]]


class Figures(Protocol):
    """Reads some metrics of the host. A metric missing in the row is MISSING."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of its figures."""

    def read(self, seconds: float, row: Row) -> None:
        """Put the figures into ``row``; ``seconds`` of the monotonic clock since the previous call."""

    def close(self) -> None:
        """Close files."""


def difference(new: float, old: float, jitter: float = 0.0) -> tuple[float, int]:
    """Growth of a counter, and its validity code.

    ``jitter`` is the backward step, in the counter's unit, that still counts as no growth.
    """
    grown = new - old
    if grown >= 0:
        return grown, VALID
    return (0.0, VALID) if grown >= -jitter else (NAN, RESET)


def rate(new: float, old: float | None, seconds: float, jitter: float = 0.0) -> tuple[float, int]:
    """Growth per second over the measured ``seconds``, and its validity code."""
    if old is None or seconds <= 0:
        return NAN, FIRST
    grown, code = difference(new, old, jitter)
    return grown / seconds, code


def differences(
    new: Sequence[float], old: Sequence[float], jitter: float = 0.0
) -> tuple[Sequence[float], Sequence[int] | None]:
    """``difference`` of each pair; no codes (None) if all are valid, which is nearly always."""
    grown = [a - b for a, b in zip(new, old, strict=True)]
    if min(grown) >= 0:
        return grown, None
    pairs = [difference(a, b, jitter) for a, b in zip(new, old, strict=True)]
    return [growth for growth, _ in pairs], [code for _, code in pairs]


class CounterMemory:
    """The previous value of named counters: turns them into rates."""

    __slots__ = ("_old",)

    def __init__(self) -> None:
        self._old: dict[str, float] = {}

    def rate(
        self, name: str, new: float | None, seconds: float, scale: float = 1.0, most: float = INFINITY
    ) -> tuple[float, int]:
        """``scale`` times the growth per second of the counter ``name``; MISSING if it is None now, RATE if it has
        grown by more than ``most``."""
        if new is None:
            self._old.pop(name, None)
            return NAN, MISSING
        old = self._old.get(name)
        value, code = rate(new, old, seconds)
        self._old[name] = new
        if code == VALID and old is not None and new - old > most:
            code = RATE
        return value * scale, code

    def keep(self, names: Collection[str]) -> None:
        """Forget the counters with other names: vanished ones, such as a container's interface, may never come
        again, and if they do, their counters restart."""
        if not self._old.keys() <= set(names):
            self._old = {name: self._old[name] for name in names if name in self._old}


def gauge(value: float | None, scale: float = 1.0) -> tuple[float, int]:
    """A value that needs no predecessor."""
    return (NAN, MISSING) if value is None else (value * scale, VALID)


def wanted(groups: list[Figures], resource_set: ResourceSet) -> list[Figures]:
    """Groups with at least one metric of the resource set; the others are not read."""
    names = {metric.name for metric in resource_set.metrics}
    return [group for group in groups if names.intersection(group.metrics)]


def cells(row: Row, metrics: tuple[Metric, ...]) -> tuple[array[float], bytearray]:
    """The row as values and codes in the order of ``metrics``."""
    found = [row.get(metric.name, (NAN, MISSING)) for metric in metrics]
    return array("d", [value for value, _ in found]), bytearray(code for _, code in found)


def first(names: tuple[str, ...], row: Row) -> None:
    """Mark ``names`` as first samples."""
    for name in names:
        row[name] = (NAN, FIRST)
