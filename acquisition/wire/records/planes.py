"""Planes: numbers kept by the filter for every sample, and figures from them.

Each kernel of the filter computes one plane, a float32 number per sample, documented in its file. This table
contains the planes that come with shardpulse, in the order shown by readers; those of other kernels are found
where these are registered. Every reader iterates over this table, so that a new plane needs no change in any of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition import plugins
from acquisition.errors import ConfigError
from acquisition.wire.records import inputs

Floats = npt.NDArray[np.float32]


class Plane(NamedTuple):
    """One plane, and the figure that readers show for it.

    The figure has the unit of the metric, or ``unit`` instead, or that per second; ``help`` describes it in a few
    words. ``derive`` computes it from the stored numbers if these are not suited to users. A ``raw``
    plane holds the samples of the newest frame, valid or not.
    """

    number: int  #: on the wire, 1 to 255, never reused
    name: str  #: of the plane and of its kernel
    help: str
    figure_name: str = ""  #: if it differs from that of the plane
    unit: str | None = None  #: None: that of the metric
    per_second: bool = False
    derive: Callable[[Floats], Floats] | None = None
    raw: bool = False

    @property
    def figure(self) -> str:
        """Name of the figure."""
        return self.figure_name or self.name

    def unit_of(self, metric_unit: str) -> str:
        """Unit of the figure for a metric with this unit."""
        unit = metric_unit if self.unit is None else self.unit
        return f"{unit}/s" if self.per_second else unit

    def figures(self, stored: Floats) -> Floats:
        """Figures from stored numbers, float32 of the same shape; NaN if missing."""
        return stored if self.derive is None else self.derive(stored)


def _root(stored: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        root: Floats = np.sqrt(stored)
    return root


MEAN = Plane(2, "mean", "moving average of the valid samples")
VARIANCE = Plane(3, "variance", "moving standard deviation", "deviation", derive=_root)
TREND = Plane(4, "trend", "slope of the moving average per second", per_second=True)
LAST = Plane(1, "last", "raw value of the newest sample", raw=True)

#: The planes that come with shardpulse.
OWN = (MEAN, VARIANCE, TREND, LAST)
_OWN_BY_NUMBER = {plane.number: plane for plane in OWN}
_NAME = re.compile(r"[a-z][a-z0-9_]*")
#: Names of other values shown beside figures.
_TAKEN = frozenset((*inputs.KEPT, "threshold", "validity", "stale_seconds", "age_seconds", "unit", "inputs"))


@lru_cache(1)
def known() -> tuple[Plane, ...]:
    """All planes of this installation: its own, then those of kernels registered by other packages, by number.

    Raises ConfigError for a kernel that cannot be loaded, and for an invalid or duplicate number or name.
    """
    found = {plane.number: plane for plane in OWN}
    names = {name for plane in OWN for name in (plane.name, plane.figure)} | _TAKEN
    for name, kernel in plugins.registered(plugins.KERNELS).items():
        plane: Plane = kernel.plane
        if plane in OWN:
            continue
        if plane.number in found or not 0 < plane.number < 256:
            raise ConfigError(f"kernel {name}: plane number {plane.number} is taken or out of range (1 to 255)")
        for word in {name, plane.name, plane.figure}:
            if word in names or not _NAME.fullmatch(word):
                raise ConfigError(f"kernel {name}: name {word!r} is taken or invalid")
        found[plane.number] = plane
        names |= {plane.name, plane.figure}
    return (*OWN, *(found[number] for number in sorted(found.keys() - {plane.number for plane in OWN})))


def extra() -> tuple[Plane, ...]:
    """Planes of ``known`` that do not come with shardpulse."""
    return known()[len(OWN) :]


@lru_cache(256)
def by_number(number: int) -> Plane:
    """Plane of a number. An unregistered one is shown by its number; its unit is unknown."""
    found = _OWN_BY_NUMBER.get(number) or next((plane for plane in known() if plane.number == number), None)
    return found or Plane(number, f"plane{number}", "figure of a kernel that is not installed on this machine", unit="")
