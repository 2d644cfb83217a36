"""Mean: exponential moving average over irregular time.

mean' = mean + alpha (x - mean), alpha = 1 - exp(-elapsed / tau): the result depends neither
on the sampling interval nor on how a gap is divided (Eckner, Algorithms for unevenly spaced
time series, 2012: last-point interpolation).
"""

from __future__ import annotations

import numpy as np

from acquisition.wire.records import planes
from filters.kernels.step import Floats, Kernel, Step


def update(step: Step, out: Floats) -> None:
    """Move the mean towards the new sample."""
    np.multiply(step.alpha, step.deviation, out=out)
    np.add(out, step.old["mean"], out=out)


KERNEL = Kernel(planes.MEAN, update, prime=lambda x: x)
