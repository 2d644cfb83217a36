"""Reading: one resource set at one tick, between source and frame."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from acquisition.model.codes import VALID, name_of
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity


class Reading(NamedTuple):
    """A matrix entities x metrics, flat and row-major, that checks may mark.

    ``values`` float64 (NaN: no value), ``codes`` one byte per value (acquisition.model.codes),
    ``wall`` and ``monotonic`` seconds when sampling ended, ``dt`` seconds of the
    monotonic clock since the set's previous reading (0 for the first), ``cores`` and
    ``memory_bytes`` of the sampled machine (0 if unknown: then checks that need
    them use no such limit). ``lines`` are source line numbers per row in a replay, else empty.
    """

    resource_set: ResourceSet
    entities: list[Entity]
    values: array[float]
    codes: bytearray
    wall: float
    monotonic: float
    dt: float
    cores: int = 0
    memory_bytes: float = 0.0
    lines: Sequence[int] = ()


class Marks(NamedTuple):
    """Samples of one metric with one code: their number, and the first entity among them with its raw value."""

    metric: str
    code: str
    samples: int
    first: str
    value: float


def marked(reading: Reading) -> Iterator[Marks]:
    """Samples of a reading that were marked by checks, or had no value: by metric and code, in the order of
    metrics."""
    width = len(reading.resource_set.metrics)
    for column, metric in enumerate(reading.resource_set.metrics):
        codes = reading.codes[column::width]
        for code in sorted(set(codes) - {VALID}):
            row = codes.index(code)
            value = reading.values[row * width + column]
            yield Marks(metric.name, name_of(code), codes.count(code), reading.entities[row].name, value)
