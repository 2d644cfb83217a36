"""Kernels: one per plane of the smoothed record.

A kernel is a pure function over flat float32 arrays, one element per sample.
``update`` returns the new plane for valid samples after the first one;
``prime`` for the first valid sample. ``filters.kernels.numpy_step`` keeps the
old value for invalid samples, so kernels can ignore validity.
New kernel: one file, which describes its plane (acquisition.wire.records.planes), one line in REGISTRY, one test
against the scalar model. A kernel of another package is registered there, in the entry point group of
acquisition.plugins.
"""

from __future__ import annotations

from collections.abc import Iterable

from acquisition import plugins
from filters.kernels import last, mean, trend, variance
from filters.kernels.step import Kernel, Step

#: Kernels of shardpulse in order of evaluation: each may use the new planes of earlier ones.
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
    """Kernels by name, those of other packages last. Raises ConfigError if one of these cannot be loaded."""
    return plugins.registered(plugins.KERNELS, REGISTRY)


def select(names: Iterable[str]) -> tuple[Kernel, ...]:
    """Named kernels in order of evaluation, plus the kernels they need; raw ones come first.

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
    """Kernels that are computed and stored: all except the raw ones."""
    return tuple(kernel for kernel in chosen if not kernel.raw)


__all__ = ["REGISTRY", "Kernel", "Step", "computed", "installed", "select"]
