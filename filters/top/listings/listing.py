"""Listing: rows of one screen as columns, for hosts, entities or metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes
from acquisition.snapshot.values.states import CURRENT, STATES
from acquisition.wire.records.planes import Plane
from acquisition.wire.records.smoothed import Floats

HOSTS = "hosts"
ENTITIES = "entities"  #: the VMs or the processes of a host
METRICS = "metrics"  #: of one entity, or of a host itself

STATE_CURRENT = STATES.index(CURRENT)
_IS_INVALID = np.frombuffer(codes.IS_INVALID, np.bool_)


class Listing(NamedTuple):
    """n rows, hosts ordered by name; every column has n elements.

    The figures are of CPU use, in a metric listing of the metric.
    ``mean deviation trend last memory`` float64, NaN without a value; ``codes`` uint8 of ``last``;
    ``age`` float64, seconds since the newest valid value at the time of the snapshot, for a row without values
    since its last report; NaN while unknown. ``state`` uint8, an index into states.STATES. ``invalid`` int64:
    number of samples at this tick that failed a check, ``missing``: of those without a value.
    ``interval`` float64: seconds per tick; ``now``: the reader's clock. ``heading``: common to all rows.
    """

    kind: str
    names: Sequence[str]
    labels: Sequence[str]  #: pid, uuid; "" if the name suffices
    ids: npt.NDArray[np.uint64]
    units: Sequence[str]
    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]
    trend: npt.NDArray[np.float64]
    last: npt.NDArray[np.float64]
    codes: npt.NDArray[np.uint8]
    memory: npt.NDArray[np.float64]
    invalid: npt.NDArray[np.int64]
    missing: npt.NDArray[np.int64]
    age: npt.NDArray[np.float64]
    state: npt.NDArray[np.uint8]
    tick: npt.NDArray[np.int64]
    interval: npt.NDArray[np.float64]
    now: float
    reasons: Sequence[str]  #: reason a row has no figures; "" if it has
    notes: Sequence[str] = ()  #: destination of a migrating VM, verdict on a host; () for none
    memory_unit: str = "ratio"
    extra: Mapping[Plane, npt.NDArray[np.float64]] = {}  #: figures of further kernels
    heading: tuple[str, ...] = ()
    own: Mapping[str, npt.NDArray[np.float64]] = {}  #: metrics that only VMs have

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.names)


def failed(code: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Mask of failed checks, for codes of any shape."""
    return _IS_INVALID[code]


def absent(code: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Mask of missing values: not provided, the first of an epoch, or late."""
    return np.isin(code & codes.CODE_MASK, codes.WITHOUT_VALUE)


def valid_age(age: npt.NDArray[np.float64] | float, stale: Floats) -> npt.NDArray[np.float64]:
    """Seconds since the last valid value: the age of the tick plus the time up to it; NaN if there never was one."""
    total = np.asarray(age, np.float64) + stale
    total[~np.isfinite(total)] = np.nan
    return total
