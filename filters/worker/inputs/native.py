"""The step of the decision inputs in C, where it could be compiled: the same figures for a fraction of the CPU time.

``ADVANCE`` is ``filters.worker.inputs._inputs_step.advance``, or None: then ``stage`` computes with numpy, over many
frames at once. SHARDPULSE_PURE_PYTHON=1 in the environment chooses that as well.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from acquisition.model.derived import CPU, MEMORY, NETWORK
from acquisition.wire.inputs import Floats
from filters.worker.inputs.plan import Plan

#: (planes, window, ordered, lately, derived, plan, values, codes, means, dt, seconds, step, missing) -> row
Advance = Callable[
    [Floats, Floats, Floats, Floats, Floats, bytes, bytes, bytes, npt.NDArray[np.float32], float, float, int, int],
    bytes,
]
#: The derived metrics whose formula it knows, in the order of its numbers for them.
FORMULAS = (CPU, MEMORY, NETWORK)
_MOST_PARTS = 3


def can_compute(plan: Plan) -> bool:
    """Whether it knows all formulas of a plan."""
    return all(name in FORMULAS for name in plan.names[len(plan.sources) :])


def pack_plan(plan: Plan, taus: npt.NDArray[np.float64]) -> bytes:
    """A plan as the step reads it; ``taus`` seconds, of the derived columns."""
    shape = len(plan.sources), len(plan.derived), plan.metrics, plan.window, plan.counted, plan.plateau
    formulas = [
        struct.pack("=4i", FORMULAS.index(name), *parts, *(0,) * (_MOST_PARTS - len(parts)))
        for name, (_, parts) in zip(plan.names[len(plan.sources) :], plan.derived, strict=True)
    ]
    return b"".join(
        (
            struct.pack("=6i", *shape),
            np.asarray(taus, np.float64).tobytes(),
            plan.thresholds.tobytes(),
            plan.slacks.tobytes(),
            struct.pack(f"={len(plan.sources)}i", *plan.sources),
            *formulas,
        )
    )


def _load() -> Advance | None:
    if os.environ.get("SHARDPULSE_PURE_PYTHON"):
        return None
    try:
        from filters.worker.inputs._inputs_step import advance
    except ImportError:
        return None
    return advance


ADVANCE = _load()
