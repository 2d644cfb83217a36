"""Step types: input and definition of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from acquisition.wire.records.planes import Plane

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Step:
    """One step of many frames at once; every array is float32 (N,), N samples of any frames.

    ``x`` new samples, ``elapsed`` seconds since the sample's last valid value, ``alpha`` =
    1 - exp(-elapsed/tau), ``decay`` = 1 - alpha, ``old`` and ``new`` planes by name, ``deviation`` =
    x - old mean.
    """

    x: Floats
    elapsed: Floats
    alpha: Floats
    decay: Floats
    deviation: Floats
    old: dict[str, Floats]
    new: dict[str, Floats]


@dataclass(frozen=True)
class Kernel:
    """``plane``: description for readers. ``update(step, out)`` writes the new plane to ``out``; ``prime(x)`` returns
    its first value. ``needs``: names of planes that must be kept as well.

    A raw plane holds the frame's own values: nothing is computed or stored for it.
    """

    plane: Plane
    update: Callable[[Step, Floats], None] = lambda _step, _out: None
    prime: Callable[[Floats], Floats | float] = lambda _x: 0.0
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the plane, which selects the kernel in the configuration."""
        return self.plane.name

    @property
    def raw(self) -> bool:
        """Whether there is nothing to compute."""
        return self.plane.raw
