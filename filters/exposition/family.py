"""A metric family: what stands in its HELP, TYPE and UNIT lines, and which labels its series carry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

GAUGE = "gauge"
COUNTER = "counter"  #: its series are named ``NAME_total``
INFO = "info"  #: its series are named ``NAME_info`` and are always 1

_SUFFIXES = {COUNTER: "_total", INFO: "_info"}

#: A series: its labels as text, without braces, and its value. None: there is no value, and no series.
Series = tuple[str, float | int | None]


class Family(NamedTuple):
    """``name`` ends with ``_UNIT`` where there is a unit, and has no suffix of its type."""

    name: str
    kind: str
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()

    @property
    def series_name(self) -> str:
        """What its series are called, and what a query asks for."""
        return self.name + _SUFFIXES.get(self.kind, "")


#: A family and its series.
Filled = tuple[Family, Iterable[Series]]
