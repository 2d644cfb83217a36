"""Simulated hosts: guests with work, where they are, and the metrics that the product would see."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.decisions.evaluation import judges
from experiments.decisions.evaluation.contention import Second, serve
from experiments.decisions.evaluation.scenarios import Size, Work
from experiments.decisions.load import MEMORY_GIB, Ints
from experiments.decisions.monitor import Doubles
from filters.decisions.picture import CPU, MEMORY, NETWORK

MEMORY_PER_GUEST = 8.0  #: GiB of a host for each of its guests: room for some more
_BURSTING = 1  #: guests of a host that carry its bursts
_LARGE = 4.0  #: vCPUs of the others, as a multiple of the cores that they use when the host is full


class Guests(NamedTuple):
    """All guests: ``home`` (V,) is where they begin, ``share`` (V,) their part of the spread work of that host,
    ``carrier`` (V,) of its bursts, ``vcpus`` and ``memory`` (V,) in GiB."""

    home: Ints
    share: Doubles
    carrier: Doubles
    vcpus: Doubles
    memory: Doubles

    def wanted(self, work: Work, second: int, cores: float) -> Doubles:
        """Core-seconds of work (V,) that come in a second."""
        spread, bursts = work.spread[second][self.home], work.bursts[second][self.home]
        return np.asarray((spread * self.share + bursts * self.carrier) * cores, np.float64)


def guests_of(seed: int, size: Size) -> Guests:
    """Guests of different sizes; the first of each host carries its bursts, with as many vCPUs as the host has."""
    draw = np.random.default_rng([seed, size.hosts, size.vms])
    share = draw.dirichlet(np.full(size.vms, 4.0), size.hosts).ravel()
    carrier = np.tile(np.arange(size.vms) < _BURSTING, size.hosts) / _BURSTING
    vcpus = np.maximum(1.0, np.ceil(_LARGE * share * size.cores))
    vcpus = np.minimum(np.where(carrier > 0.0, size.cores, vcpus), size.cores)
    memory = draw.choice(np.asarray(MEMORY_GIB, np.float64), len(share))
    return Guests(np.repeat(np.arange(size.hosts), size.vms), share, carrier, vcpus, memory)


class Hosts:
    """Hosts over time; ``place`` (V,) may be changed between seconds."""

    def __init__(self, work: Work, guests: Guests, size: Size) -> None:
        self.place = guests.home.copy()
        self._work, self._guests, self._size = work, guests, size
        self._carried = np.zeros(len(self.place))

    def second(self, second: int, overhead: Doubles) -> Second:
        """Run one second."""
        wanted = self._guests.wanted(self._work, second, self._size.cores)
        done = serve(wanted, self._carried, self.place, self._size.cores, self._guests.vcpus, overhead)
        self._carried = done.carried
        return done

    def metrics(self, done: Second) -> dict[str, Doubles]:
        """The metrics (H,) of a second by the product's names."""
        hosts = self._size.hosts
        memory = np.bincount(self.place, self._guests.memory, hosts) / (MEMORY_PER_GUEST * self._size.vms)
        return {
            CPU: done.busy,
            judges.RUNNABLE: done.runnable,
            judges.PRESSURE: done.pressure,
            judges.SUFFERING: np.bincount(self.place, done.delay, hosts),
            MEMORY: memory,
            NETWORK: 0.3 * done.busy,
        }
