"""Metrics and resource sets: the columns of a frame.

A metric is a table row: name with its base unit, unit, kind, valid range, help
(the paper calls it a performance index). A resource set is an ordered tuple of
metrics that one monitor module reads together.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import NamedTuple

GAUGE = "gauge"
COUNTER = "counter"  #: read as a counter, sent as a rate per second

INFINITY = float("inf")
HOST_SET = "host"  #: the resource set of a host itself: one entity


class Metric(NamedTuple):
    """One column: ``low`` and ``high`` bound what is physically possible, inclusive."""

    name: str
    unit: str
    kind: str
    low: float
    high: float
    help: str


class ResourceSet(NamedTuple):
    """Resource set watched by one monitor module: ``host``, ``processes``, ``vms`` …"""

    name: str
    metrics: tuple[Metric, ...]

    def select(self, names: tuple[str, ...]) -> ResourceSet:
        """The same set with only the named metrics, in this set's order.

        Raises KeyError with the first unknown name.
        """
        known = {metric.name for metric in self.metrics}
        for name in names:
            if name not in known:
                raise KeyError(name)
        return ResourceSet(self.name, tuple(m for m in self.metrics if m.name in names))


def resource_set_id(name: str) -> int:
    """The 32-bit number of a resource set on the wire: CRC-32 of its name."""
    return zlib.crc32(name.encode())


@lru_cache(64)
def schema_hash(metrics: tuple[Metric, ...]) -> int:
    """A 32-bit hash over names, units and kinds in order: two frames with the same
    hash have the same columns. Ranges and help are not part of it."""
    text = "\n".join(f"{m.name}|{m.unit}|{m.kind}" for m in metrics)
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))  # JSON can carry lone surrogates: hash them all the same
