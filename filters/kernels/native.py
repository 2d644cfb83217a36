"""The step of the filter in C, where it could be compiled: the same figures for a fraction of the CPU time.

``ADVANCE`` is ``filters.kernels._advance.advance``, or None: then ``numpy_step`` computes with
numpy, in batches of many frames. SHARDPULSE_PURE_PYTHON=1 in the environment chooses that as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from filters.kernels import mean, trend, variance
from filters.kernels.step import Floats

#: (planes, numbers, values, codes, exceptions, dt, taus) -> (exceptions, unused); see filters/kernels/_advance.c
Advance = Callable[[Floats, bytes, bytes, bytes, bytes, float, npt.NDArray[np.float64]], tuple[bytes, int]]

#: The kernels that it computes; with any other in the configuration all are computed with numpy.
NATIVE_KERNELS = (mean.KERNEL, variance.KERNEL, trend.KERNEL)


def _load() -> Advance | None:
    if os.environ.get("SHARDPULSE_PURE_PYTHON"):
        return None
    try:
        from filters.kernels._advance import advance
    except ImportError:
        return None
    return advance


ADVANCE = _load()
