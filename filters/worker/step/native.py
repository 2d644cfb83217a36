"""Native step of the filter, if it could be compiled.

It computes the same figures for a fraction of the CPU time.

``STEP`` is provided by ``filters.worker.step._step``, or None: then numpy computes, in batches of many frames
(``filters.kernels.numpy_step``, ``filters.worker.compute.stage``), as when it is disabled
(``acquisition.compiled``). ``filters.worker.compute.agreed`` compares it with the definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from acquisition import compiled
from filters.kernels import mean, trend, variance
from filters.kernels.step import Floats, Kernel
from filters.worker.inputs.state import NativeInputs

#: (planes, numbers, values, codes, exceptions, dt, taus, head, ids, raw, prefix, tail, inputs) -> (exceptions, invalid,
#: record, row); see filters/worker/step/_step.c
Advance = Callable[
    [
        Floats, bytes, bytes, bytes, bytes, float, npt.NDArray[np.float64], bytes, bytes, int, bytes, bytes,
        NativeInputs | None,
    ],
    tuple[bytes, int, bytes, bytes | None],
]  # fmt: skip

#: (entries, at, end, batch, states, heard, dirty, now, kind, accepted) -> (at, size): step/followers.h
TakeFollowers = Callable[
    [
        list[Any],
        int,
        int,
        Any,
        dict[tuple[int, int], Any],
        dict[tuple[int, int], float],
        dict[bytes, Any],
        float,
        type,
        Any,
    ],
    tuple[int, int],
]

#: (key, states) -> command; see filters/worker/step/positions.h
WritePositions = Callable[[bytes, dict[bytes, Any]], bytes]

#: (accepted, now, moment) -> left; see filters/worker/step/turn.h
RunAll = Callable[[list[Any], float, float], list[list[Any]]]


class Stepper(Protocol):
    """State of one resource set between frames in direct succession; see filters/worker/step/stepper.h."""

    def state(self) -> tuple[bytes, float, int]:
        """The exceptions of the newest frame, its CLOCK_MONOTONIC, and the step of the decision inputs, 0
        without any."""


class Step(NamedTuple):
    """Compiled functions: one frame of any kind; for frames in direct succession, taking all of a read, smoothing
    all of a turn, and the command that writes their positions."""

    advance: Advance
    take_followers: TakeFollowers
    run_all: RunAll
    write_positions: WritePositions
    make_stepper: Callable[..., Stepper]


#: Kernels that it computes; with any other in the configuration all are computed with numpy.
NATIVE_KERNELS = (mean.KERNEL, variance.KERNEL, trend.KERNEL)


def chosen(kernels: Iterable[Kernel]) -> compiled.ChosenStep:
    """Step that computes these kernels, and how to obtain the native one."""
    others = [kernel.name for kernel in kernels if not kernel.raw and kernel not in NATIVE_KERNELS]
    if others:
        reason = f"native code is not available for kernel{'s' * (len(others) > 1)} {', '.join(others)}"
        return compiled.ChosenStep(compiled.NUMPY, reason)
    return compiled.chosen(STEP is not None, compiled.NUMPY)


def step_of(kernels: Iterable[Kernel]) -> Step | None:
    """Step that computes these kernels; None: numpy."""
    return STEP if all(kernel.raw or kernel in NATIVE_KERNELS for kernel in kernels) else None


def _load() -> ModuleType | None:
    if compiled.switched_off():
        return None
    try:
        from filters.worker.step import _step
    except ImportError:
        return None
    return compiled.complete(_step, "advance", "take_followers", "run_all", "write_positions", "Stepper")


def _step_in(module: ModuleType) -> Step:
    return Step(module.advance, module.take_followers, module.run_all, module.write_positions, module.Stepper)


MODULE = _load()
STEP = None if MODULE is None else _step_in(MODULE)
