"""The step of the filter in C, where it could be compiled: the same figures for a fraction of the CPU time.

``ADVANCE`` is ``filters.worker.step._step.advance``, or None: then numpy computes, in batches of many frames
(``filters.kernels.numpy_step``, ``filters.worker.inputs.stage``), as where it is switched off
(``acquisition.compiled``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from acquisition import compiled
from filters.kernels import mean, trend, variance
from filters.kernels.step import Floats, Kernel
from filters.worker.inputs.state import NativeInputs

#: (planes, numbers, values, codes, exceptions, dt, taus, head, ids, raw, prefix, tail, inputs) -> (exceptions, unused,
#: record, row); see filters/worker/step/_step.c
Advance = Callable[
    [
        Floats, bytes, bytes, bytes, bytes, float, npt.NDArray[np.float64], bytes, bytes, int, bytes, bytes,
        NativeInputs | None,
    ],
    tuple[bytes, int, bytes, bytes | None],
]  # fmt: skip

#: The kernels that it computes; with any other in the configuration all are computed with numpy.
NATIVE_KERNELS = (mean.KERNEL, variance.KERNEL, trend.KERNEL)


def chosen(kernels: Iterable[Kernel]) -> compiled.Chosen:
    """Which step computes these kernels, and what to do for the native one."""
    others = [kernel.name for kernel in kernels if not kernel.raw and kernel not in NATIVE_KERNELS]
    if others:
        reason = f"only numpy computes the kernel{'s' * (len(others) > 1)} {', '.join(others)}"
        return compiled.Chosen(compiled.NUMPY, reason)
    return compiled.chosen(ADVANCE is not None, compiled.NUMPY)


def _load() -> Advance | None:
    if compiled.switched_off():
        return None
    try:
        from filters.worker.step._step import advance
    except ImportError:
        return None
    return advance


ADVANCE = _load()
