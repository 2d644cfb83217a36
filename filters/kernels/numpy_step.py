"""Numpy step of the filter over many frames: a pure function of flat arrays.

Frames of any shapes are concatenated in arrays of N samples: F frames with ``counts`` (F,)
samples each, sum N. State is ``planes`` float32 (P, N), one row per kernel, and the few samples
that were not plainly valid at the previous frame: ``exceptions``, sorted positions, with their ``ages``,
seconds from the last valid value to the previous frame (infinite: no valid value yet).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes as validity
from filters.kernels.step import Floats, Kernel, Step

Codes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]
Positions = npt.NDArray[np.intp]


#: Larger than any metric (probes.metrics: 2^57), and squares of differences stay finite in float32.
LARGEST = np.float32(1e18)


class Batch(NamedTuple):
    """New samples of F frames and the state before them.

    ``x`` float32 (N,), ``codes`` uint8 (N,) or None when all are valid, ``dt`` float64 (F,)
    seconds since each frame's predecessor (> 0), ``tau`` float64 seconds, (N,) or (1,).
    """

    counts: Positions
    x: Floats
    codes: Codes | None
    dt: Doubles
    tau: Doubles
    planes: Floats
    exceptions: Positions
    ages: Floats


class Smoothed(NamedTuple):
    """State after a batch: ``exceptions``, sorted positions of samples with a code other than VALID,
    their ``codes`` and new ``ages`` (0 if the code only flags an outlier: it was used)."""

    planes: Floats
    exceptions: Positions
    codes: Codes
    ages: Floats


def advance(kernels: Sequence[Kernel], batch: Batch) -> Smoothed:
    """State after the samples of a batch; ``kernels`` are computed ones, in order of evaluation."""
    x = batch.x
    planes = np.empty_like(batch.planes)
    with np.errstate(all="ignore"):  # NaN and infinity occur while values are not primed
        elapsed = np.repeat(batch.dt.astype(np.float32), batch.counts)
        update(kernels, x, elapsed, _weights(batch, elapsed), batch.planes, planes)
        codes = _trusted(x, batch.codes)
    first = batch.exceptions[np.isinf(batch.ages)]
    if first.size:
        for i, kernel in enumerate(kernels):
            planes[i, first] = kernel.prime(x[first])
    if codes is None:
        nothing = np.empty(0, np.intp)
        return Smoothed(planes, nothing, np.empty(0, np.uint8), np.empty(0, np.float32))
    exceptions = np.flatnonzero(codes != 0)  # of booleans: three times as fast as of bytes
    reasons = codes[exceptions]
    used = (reasons & validity.CODE_MASK) == validity.VALID
    held = exceptions[~used] if used.any() else exceptions
    planes[:, held] = batch.planes[:, held]
    ages = elapsed[exceptions]
    ages[used] = 0.0
    return Smoothed(planes, exceptions, reasons, ages)


def update(
    kernels: Sequence[Kernel], x: Floats, elapsed: Floats, weights: tuple[Floats, Floats], before: Floats, after: Floats
) -> None:
    """Write to ``after`` the new values of the planes ``before``, one per kernel, for samples ``x`` that are valid and
    not the first ones; ``weights`` are those of ``elapsed``."""
    old = {kernel.name: before[i] for i, kernel in enumerate(kernels)}
    new = {kernel.name: after[i] for i, kernel in enumerate(kernels)}
    step = Step(x, elapsed, *weights, x - old["mean"] if "mean" in old else x, old, new)
    for kernel in kernels:
        kernel.update(step, new[kernel.name])


def _weights(batch: Batch, elapsed: Floats) -> tuple[Floats, Floats]:
    """1 - exp(-elapsed/tau) and exp(-elapsed/tau) of every sample, and ``elapsed`` corrected for
    exceptions in place.

    Nearly all samples were valid one frame ago and share their frame's dt: exp is evaluated
    once per frame, in float64, as one minus the other weight would lose digits in float32,
    and separately only for the few that were not.
    """
    if batch.tau.size != 1:  # per sample; empty if all frames are empty
        if batch.exceptions.size:
            elapsed[batch.exceptions] += batch.ages
        return weights(elapsed, batch.tau)
    alpha, decay = (np.repeat(weight, batch.counts) for weight in weights(batch.dt, batch.tau))
    if batch.exceptions.size:
        waited = elapsed[batch.exceptions] + batch.ages
        elapsed[batch.exceptions] = waited
        alpha[batch.exceptions], decay[batch.exceptions] = weights(waited, batch.tau)
    return alpha, decay


def weights(elapsed: Floats | Doubles, tau: Doubles) -> tuple[Floats, Floats]:
    """1 - exp(-elapsed/tau) and exp(-elapsed/tau): weights of a new sample and of the old value."""
    exponent = -elapsed.astype(np.float64) / tau
    return (-np.expm1(exponent)).astype(np.float32), np.exp(exponent).astype(np.float32)


def _trusted(x: Floats, codes: Codes | None) -> Codes | None:
    """The codes, with RANGE for samples marked valid that cannot be smoothed:
    not finite, or with a square that is not."""
    usable = np.abs(x) <= LARGEST
    if usable.all():
        return codes
    checked = np.zeros(x.shape, np.uint8) if codes is None else codes.copy()
    checked[~usable & ((checked & validity.CODE_MASK) == validity.VALID)] = validity.RANGE
    return checked
