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
    """n rows, hosts in the order of their names; every column has n elements.

    The figures are of CPU use, of a metric listing of that metric.
    ``mean deviation trend last memory`` float64, NaN where there is no value; ``codes`` uint8 of ``last``;
    ``age`` float64, seconds since the newest valid value at the time of the snapshot, of a row without values
    since its last report; NaN while unknown. ``state`` uint8, an index into states.STATES. ``invalid`` int64
    counts samples at this tick whose check failed, ``missing`` those without a value.
    ``interval`` float64 is seconds per tick, ``now`` the reader's clock. ``heading`` is what all rows have in common.
    """

    kind: str
    names: Sequence[str]
    labels: Sequence[str]  #: pid, uuid; "" where the name says all
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
    reasons: Sequence[str]  #: why a row has no figures; "" where it has
    notes: Sequence[str] = ()  #: where a VM is migrating to, how a host is judged; () for none
    memory_unit: str = "ratio"
    extra: Mapping[Plane, npt.NDArray[np.float64]] = {}  #: the figures of further kernels
    heading: tuple[str, ...] = ()
    own: Mapping[str, npt.NDArray[np.float64]] = {}  #: what VMs alone have, by metric

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.names)


def failed(code: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Where a check failed, of codes of any shape."""
    return _IS_INVALID[code]


def absent(code: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Where there is no value: none is provided, it is the first of its epoch, or late."""
    return np.isin(code & codes.CODE_MASK, codes.WITHOUT_VALUE)


def valid_age(age: npt.NDArray[np.float64] | float, stale: Floats) -> npt.NDArray[np.float64]:
    """Seconds since the last valid value: the age of the tick and the time to it; NaN where there never was one."""
    total = np.asarray(age, np.float64) + stale
    total[~np.isfinite(total)] = np.nan
    return total
