"""Variance, exponentially weighted.

variance' = (1 - alpha) (variance + alpha d^2), d = x - mean (Finch, Incremental calculation
of weighted mean and variance, 2009, section 9). Readers show its square root.
"""

from __future__ import annotations

import numpy as np

from acquisition.wire.records import planes
from filters.kernels.step import Floats, Kernel, Step


def update(step: Step, out: Floats) -> None:
    """Blend the squared deviation in."""
    np.multiply(step.deviation, step.deviation, out=out)
    np.multiply(out, step.alpha, out=out)
    np.add(out, step.old["variance"], out=out)
    np.multiply(out, step.decay, out=out)


KERNEL = Kernel(planes.VARIANCE, update, prime=lambda _x: 0.0, needs=("mean",))
