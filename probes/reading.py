"""A reading: one resource set at one tick, on its way from a source through the checks to a frame."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity


class Reading:
    """A matrix entities x metrics, flat and row-major, that checks may mark.

    ``values`` float64 (NaN: no value), ``codes`` one byte per value (acquisition.model.codes),
    ``wall`` and ``monotonic`` seconds when sampling ended, ``dt`` seconds of the
    monotonic clock since the set's previous reading (0 for the first), ``cores`` and
    ``memory_bytes`` of the machine that was sampled (0 when unknown: then checks that need
    them use no such limit). ``lines`` are source line numbers per row in a replay, else empty.
    """

    __slots__ = (
        "codes", "cores", "dt", "entities", "lines", "memory_bytes",
        "monotonic", "resource_set", "values", "wall",
    )  # fmt: skip

    def __init__(
        self,
        resource_set: ResourceSet,
        entities: list[Entity],
        values: Iterable[float],
        codes: bytearray,
        wall: float,
        monotonic: float,
        dt: float,
        cores: int = 0,
        memory_bytes: float = 0.0,
        lines: Sequence[int] = (),
    ) -> None:
        self.resource_set = resource_set
        self.entities = entities
        self.values: array[float] = values if isinstance(values, array) else array("d", values)
        self.codes = codes
        self.wall = wall
        self.monotonic = monotonic
        self.dt = dt
        self.cores = cores
        self.memory_bytes = memory_bytes
        self.lines = lines
