"""Work of a scenario: what the guests of every host could run, second by second."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from experiments.decisions.load import Bools, Floats

TRAINING, TEST = "training", "test"  #: parameters may have seen the generators of the first kind only

_STEP_SECONDS, _SLOT = 300, 1200  #: length of a step, and of the slot in which a host has one


class Size(NamedTuple):
    """Emulated data center: hosts of ``cores`` with ``vms`` guests each, over ``seconds``."""

    hosts: int = 20
    vms: int = 15
    seconds: int = 7200
    cores: int = 16


class Work(NamedTuple):
    """Runnable work (T, H) as a ratio of a host's cores, above 1 where there is more than they can run.

    ``spread`` is shared by all guests of the host, ``bursts`` belong to one of them.
    """

    spread: Floats
    bursts: Floats


class Void(Exception):
    """Reason why a scenario cannot be run here, such as data that are not on this machine."""


class Scenario(NamedTuple):
    """One row of the evaluation.

    ``split`` is by generator with its parameters. ``interval`` is that of the probe in seconds, ``gaps`` the
    fraction of seconds without a sample, ``invalid`` that of samples which fail a check, ``cores`` of a host.
    """

    name: str
    build: Callable[[np.random.Generator, Size], Work]
    split: str = TEST
    interval: int = 1
    gaps: float = 0.0
    invalid: float = 0.0
    cores: int = 16

    def work(self, seed: int, size: Size) -> Work:
        """The work of one seed, the same each time. Raises Void."""
        return self.build(_generator(self.name, seed), size)

    def valid(self, seed: int, size: Size) -> Bools:
        """Seconds (T, H) with a valid sample: gaps last 1 to 20 s, invalid samples are single."""
        draw = _generator(f"{self.name} faults", seed)
        valid = draw.random((size.seconds, size.hosts)) >= self.invalid
        for host in range(size.hosts if self.gaps else 0):
            for at in draw.integers(size.seconds, size=round(self.gaps * size.seconds / 10.5)):
                valid[at : at + draw.integers(1, 21), host] = False
        return valid


def _generator(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, *name.encode()])


def with_steps(work: Work, seed: int, share: float, to: float = 0.97) -> Work:
    """The work with overloads: in each slot of 20 minutes ``share`` of the hosts rise to ``to`` for 5 minutes.

    The rise is above the host's mean, so that noise and bursts go on.
    """
    seconds, hosts = work.spread.shape
    draw, spread = _generator("steps", seed), work.spread.copy()
    mean = (work.spread + work.bursts).mean(axis=0)
    for slot in range(0, seconds - _SLOT + 1, _SLOT):
        chosen = draw.permutation(hosts)[: round(share * hosts)]
        for host, at in zip(chosen, draw.integers(60, _SLOT - _STEP_SECONDS - 60, len(chosen)), strict=True):
            spread[slot + at : slot + at + _STEP_SECONDS, host] += max(0.0, to - mean[host])
    return work._replace(spread=spread)
