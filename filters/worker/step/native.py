"""The step of the filter in C, where it could be compiled: the same figures for a fraction of the CPU time.

``ADVANCE`` is ``filters.worker.step._step.advance``, or None: then numpy computes, in batches of many frames
(``filters.kernels.numpy_step``, ``filters.worker.inputs.stage``). SHARDPULSE_PURE_PYTHON=1 in the environment
chooses that as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from filters.kernels import mean, trend, variance
from filters.kernels.step import Floats, Kernel
from filters.worker.inputs.state import NativeInputs

_DISABLED = "SHARDPULSE_PURE_PYTHON"
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

NATIVE, NUMPY = "native", "numpy"


class Chosen(NamedTuple):
    """Which step computes: ``name`` is NATIVE or NUMPY, ``reason`` why not the native one."""

    name: str
    reason: str = ""

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.name} step" if not self.reason else f"{self.name} step, which takes more CPU: {self.reason}"


def chosen(kernels: Iterable[Kernel]) -> Chosen:
    """Which step computes these kernels, and what to do for the native one."""
    others = [kernel.name for kernel in kernels if not kernel.raw and kernel not in NATIVE_KERNELS]
    if others:
        return Chosen(NUMPY, f"only numpy computes the kernel{'s' * (len(others) > 1)} {', '.join(others)}")
    if ADVANCE is not None:
        return Chosen(NATIVE)
    if os.environ.get(_DISABLED):
        return Chosen(NUMPY, f"{_DISABLED} is set")
    return Chosen(
        NUMPY,
        "install a C compiler and Python's headers (Debian, Ubuntu: apt install gcc python3-dev) and install "
        "shardpulse again; deploy/demo and tests/run build it by themselves then",
    )


def _load() -> Advance | None:
    if os.environ.get(_DISABLED):
        return None
    try:
        from filters.worker.step._step import advance
    except ImportError:
        return None
    return advance


ADVANCE = _load()
