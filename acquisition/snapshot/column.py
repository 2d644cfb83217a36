"""A column of a survey: what is known of one metric of all hosts, as plain values (acquisition.snapshot.survey)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]


class Column(NamedTuple):
    """One metric of all hosts, arrays (N,): NaN where not ``known``.

    ``mean`` is the moving average, ``last`` the raw value where it is valid, ``stale_seconds`` as of a reading.
    Of a metric that the filter does not derive, hosts with any invalid sample are not known.
    ``planes`` are the figures and counts of ``acquisition.wire.inputs``, and of how many ticks they are: ``window`` and
    ``plateau``; NaN where they are not kept. ``warming``: whose window is not full.
    """

    known: Bools
    mean: Doubles
    last: Doubles
    stale_seconds: Doubles
    planes: Mapping[str, Doubles]
    warming: Bools
