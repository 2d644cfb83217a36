"""Trend: moving average of the mean's slope, in units per second.

slope = (mean' - mean) / elapsed; trend' = trend + alpha (slope - trend) (Holt's linear method
with one time constant for level and trend).
"""

from __future__ import annotations

import numpy as np

from acquisition.wire.records import planes
from filters.kernels.step import Floats, Kernel, Step


def update(step: Step, out: Floats) -> None:
    """Move the trend towards the newest slope of the mean."""
    np.subtract(step.new["mean"], step.old["mean"], out=out)
    np.divide(out, step.elapsed, out=out)
    np.subtract(out, step.old["trend"], out=out)
    np.multiply(out, step.alpha, out=out)
    np.add(out, step.old["trend"], out=out)


KERNEL = Kernel(planes.TREND, update, prime=lambda _x: 0.0, needs=("mean",))
