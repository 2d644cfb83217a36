"""Kernels: one per plane of the smoothed record.

A kernel is a pure function over flat float32 arrays, one element per sample.
``update`` answers what the plane becomes where a sample is valid and there has been one
before; ``prime`` what it becomes at the first valid sample. ``filters.kernels.numpy_step`` holds the
old value where a sample is invalid, so no kernel needs to know about validity.
New kernel: one file, which says what its plane is (acquisition.wire.records.planes), one line in REGISTRY, one test
against the scalar model. A kernel of another package is registered there, in the entry point group of
acquisition.plugins.
"""

from __future__ import annotations

from collections.abc import Iterable

from acquisition import plugins
from filters.kernels import last, mean, trend, variance
from filters.kernels.step import Kernel, Step

#: The kernels that come with shardpulse, in order of evaluation: one may use the new planes of those before it.
REGISTRY: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        last.KERNEL,
        mean.KERNEL,
        variance.KERNEL,
        trend.KERNEL,
    )
}


def installed() -> dict[str, Kernel]:
    """The kernels by name, those of other packages last. Raises ConfigError when one of these cannot be loaded."""
    return plugins.registered(plugins.KERNELS, REGISTRY)


def select(names: Iterable[str]) -> tuple[Kernel, ...]:
    """The named kernels in order of evaluation, with what they need added; raw ones come first.

    Raises KeyError with the first unknown name.
    """
    known = installed()
    chosen = {known[name].name for name in names}
    ordered: dict[str, Kernel] = {}

    def add(kernel: Kernel) -> None:
        for needed in kernel.needs:
            add(known[needed])
        ordered[kernel.name] = kernel

    for name in known:
        if name in chosen:
            add(known[name])
    return tuple(sorted(ordered.values(), key=lambda kernel: not kernel.raw))


def computed(chosen: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Kernels that are computed and remembered: all but the raw ones."""
    return tuple(kernel for kernel in chosen if not kernel.raw)


__all__ = ["REGISTRY", "Kernel", "Step", "computed", "installed", "select"]
