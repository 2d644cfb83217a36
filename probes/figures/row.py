"""Figures: a group of host metrics that come from one file, and a row of them."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from typing import Protocol

from acquisition.model.codes import FIRST, MISSING, NAN, RATE, VALID
from acquisition.model.metric import INFINITY, Metric, ResourceSet
from probes.sampling.rates import rate

#: metric -> (value, validity code)
Row = dict[str, tuple[float, int]]


class Figures(Protocol):
    """Reads some metrics of the host. A metric that it leaves out of the row is MISSING."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of what it gives."""

    def read(self, seconds: float, row: Row) -> None:
        """Put the figures into ``row``; ``seconds`` of the monotonic clock since the previous call."""

    def close(self) -> None:
        """Close files."""


class CounterMemory:
    """The previous value of named counters: turns them into rates."""

    __slots__ = ("_old",)

    def __init__(self) -> None:
        self._old: dict[str, float] = {}

    def rate(
        self, name: str, new: float | None, seconds: float, scale: float = 1.0, most: float = INFINITY
    ) -> tuple[float, int]:
        """``scale`` times the growth per second of the counter ``name``; MISSING when it is None now, RATE when it has
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
        """Forget the counters with other names: what vanished, such as a container's interface, may never come
        again, and if it does, its counters restart."""
        if not self._old.keys() <= set(names):
            self._old = {name: self._old[name] for name in names if name in self._old}


def gauge(value: float | None, scale: float = 1.0) -> tuple[float, int]:
    """A value that needs no predecessor."""
    return (NAN, MISSING) if value is None else (value * scale, VALID)


def wanted(groups: list[Figures], resource_set: ResourceSet) -> list[Figures]:
    """The groups that give at least one metric of the resource set; the others are not read."""
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
