"""Kernels: what the filter keeps of every sample. One kernel = one plane of the smoothed record.

A kernel is a pure function over flat float32 arrays, one element per sample.
``update`` answers what the plane becomes where a sample is valid and there has been one
before; ``prime`` what it becomes at the first valid sample. ``filters.kernels.numpy_step`` holds the
old value where a sample is invalid, so no kernel needs to know about validity.
New kernel: one file, a number in ``acquisition.wire.smoothed.PLANES``, one line here, one test
against the scalar model.
"""

from __future__ import annotations

from filters.kernels import last, mean, trend, variance
from filters.kernels.step import Kernel, Step

#: In order of evaluation: a kernel may use the new planes of those before it; raw ones come first.
REGISTRY: dict[str, Kernel] = {
    "last": last.KERNEL,
    "mean": mean.KERNEL,
    "variance": variance.KERNEL,
    "trend": trend.KERNEL,
}


def select(names: list[str] | tuple[str, ...]) -> tuple[Kernel, ...]:
    """The named kernels in order of evaluation, with what they need added.

    Raises KeyError with the first unknown name.
    """
    wanted = set(names)
    for name in names:
        wanted.update(REGISTRY[name].needs)
    return tuple(kernel for name, kernel in REGISTRY.items() if name in wanted)


def computed(chosen: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Those that are computed and remembered: all but the raw ones."""
    return tuple(kernel for kernel in chosen if not kernel.raw)


__all__ = ["REGISTRY", "Kernel", "Step", "computed", "select"]
