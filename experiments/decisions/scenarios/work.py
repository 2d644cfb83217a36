"""Work of a scenario: runnable work of the guests of every host, second by second."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import DataError
from acquisition.model import codes
from experiments.simulation.arrays import Doubles, Floats

TRAINING, TEST = "training", "test"  #: parameters may be chosen on generators of the first kind only

_STEP_SECONDS, _SLOT = 300, 1200  #: length of a step, and of the slot that contains one per host
_LONGEST_GAP = 20


class Size(NamedTuple):
    """Simulated data center: hosts of ``cores`` with ``vms`` guests each, over ``seconds``."""

    hosts: int = 20
    vms: int = 15
    seconds: int = 7200
    cores: int = 16


class Work(NamedTuple):
    """Runnable work (T, H) as a ratio of a host's cores, above 1 if it exceeds them.

    All guests of the host share ``spread``; ``bursts`` belong to one of them.
    """

    spread: Floats
    bursts: Floats


class Faults(NamedTuple):
    """``codes`` (T, H): validity of the samples of each second, MISSING if a sample never arrived."""

    codes: npt.NDArray[np.uint8]


class Step(NamedTuple):
    """Overload of ``host`` from ``start`` seconds (a fraction) to the second ``after``, exclusive."""

    host: int
    start: float
    after: int


class Void(Exception):
    """Reason a scenario cannot be run here, such as data missing on this machine."""


class Scenario(NamedTuple):
    """One row of the evaluation.

    ``split`` is by generator with its parameters. ``interval``: probe interval in seconds; ``gaps``: fraction of
    seconds without a sample; ``invalid``: fraction of samples that fail a check; ``cores``: cores of a host; ``to``:
    level of steps; ``pressure`` and ``delay``: whether the kernel provides those of hosts and of vCPUs.
    """

    name: str
    build: Callable[[np.random.Generator, Size], Work]
    split: str = TEST
    interval: int = 1
    gaps: float = 0.0
    invalid: float = 0.0
    cores: int = 16
    to: float = 0.95
    pressure: bool = True
    delay: bool = True

    def work(self, seed: int, size: Size) -> Work:
        """The work for a seed, the same each time. Raises Void, and DataError if it is not valid work."""
        found, shape = self.build(_generator(self.name, seed), size), (size.seconds, size.hosts)
        for name, values in found._asdict().items():
            if values.shape != shape:
                raise DataError(f"scenario {self.name}: {name} of shape {values.shape}, expected {shape}")
        total = found.spread + found.bursts
        if not (np.isfinite(total) & (total >= 0.0)).all():
            raise DataError(f"scenario {self.name}: work must be finite and not negative")
        return found

    def faults(self, seed: int, size: Size) -> Faults:
        """Missing and invalid samples: gaps last 1 to 20 s and are never adjacent, invalid samples are single."""
        draw = _generator(f"{self.name} faults", seed)
        shape = (size.seconds, size.hosts)
        found = np.where(draw.random(shape) < self.invalid, codes.RANGE, codes.VALID).astype(np.uint8)
        gaps = round(self.gaps * size.seconds * 2 / (1 + _LONGEST_GAP))
        for host in range(size.hosts):
            long = draw.integers(1, _LONGEST_GAP + 1, gaps)
            taken = np.concatenate(([0], np.cumsum(long + 1)))
            starts = np.sort(draw.integers(max(1, size.seconds - int(taken[-1])), size=gaps)) + taken[:-1]
            for at, length in zip(starts.tolist(), long.tolist(), strict=True):
                found[at : at + length, host] = codes.MISSING
        return Faults(found)


def _generator(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, *name.encode()])


def with_steps(work: Work, seed: int, hosts: int, to: float) -> tuple[Work, list[Step]]:
    """The work with overloads: in each slot of 20 minutes this number of ``hosts`` rises to ``to`` for 5 minutes.

    The rise is added to the host's mean, so that noise and bursts continue.
    """
    seconds, every = work.spread.shape
    draw, spread, steps = _generator("steps", seed), work.spread.copy(), list[Step]()
    mean = (work.spread + work.bursts).mean(axis=0, dtype=np.float64)
    for slot in range(0, seconds - _SLOT + 1, _SLOT):
        chosen = draw.permutation(every)[:hosts]
        starts = slot + draw.uniform(60.0, _SLOT - _STEP_SECONDS - 60.0, len(chosen))
        for host, start in zip(chosen.tolist(), starts.tolist(), strict=True):
            first = int(start)
            rise = np.full(_STEP_SECONDS, max(0.0, to - mean[host]))
            rise[0] *= first + 1.0 - start
            spread[first : first + _STEP_SECONDS, host] += rise
            steps.append(Step(host, start, first + _STEP_SECONDS))
    return work._replace(spread=spread), steps


def autoregressive(draw: np.random.Generator, size: Size, deviation: float, phi: float) -> Floats:
    """AR(1) (T, H) around 0 with stationary standard deviation ``deviation`` and lag-1 correlation ``phi``."""
    values = draw.standard_normal((size.seconds, size.hosts), dtype=np.float32) * np.float32(deviation)
    values[1:] *= np.float32(np.sqrt(1.0 - phi * phi))
    for second in range(1, size.seconds):
        values[second] += np.float32(phi) * values[second - 1]
    return values


def covered(start: float, length: float, seconds: int) -> tuple[int, Doubles]:
    """The first second of a span, and the fraction of each second that it covers."""
    first, after = int(start), min(int(start + length) + 1, seconds)
    edges = np.arange(first, after + 1, dtype=np.float64)
    return first, np.diff(np.clip(edges, start, start + length))
