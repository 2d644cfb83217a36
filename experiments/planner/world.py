"""World of the planner: VM demand, overload steps, migrations that take time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.simulation.arrays import Doubles, Ints
from experiments.simulation.contention import serve
from filters.decisions.constraints.labels import PINNED

_GIB = float(1 << 30)
_CORRELATION = 0.5  #: of the noise from one second to the next
_LARGE = 4.0  #: vCPUs of a VM, as a multiple of its use in cores on a full host
_RELIEVABLE = 4  #: minimum VMs on an overloaded host of a given layout: a single VM cannot be relieved


class Size(NamedTuple):
    """Hosts are between ``lowest`` and ``highest`` of their CPU; ``overloaded`` ones rise at second 0 to between
    ``least`` and ``most``. The greater ``evenness``, the more equal are the VMs of a host (Dirichlet). ``vm_noise`` is
    the noise of each VM as a ratio of its demand, in place of ``deviation``."""

    hosts: int = 20
    vms: int = 15  #: per host
    overloaded: int = 3
    least: float = 0.91
    most: float = 1.0
    evenness: float = 4.0
    lowest: float = 0.45
    highest: float = 0.75
    deviation: float = 0.045  #: of a host's CPU from second to second
    vm_noise: float = 0.0
    cores: float = 16.0
    memory: float = 128 * _GIB


class Layout(NamedTuple):
    """Host rows of the VMs, the share of each in the load of its host, its memory, and its labels (none if the sequence
    is empty)."""

    place: Ints
    shares: Doubles
    memory: Doubles
    labels: Sequence[Mapping[str, str]] = ()


class Way(NamedTuple):
    """A migration in progress: row of the VM, row of its destination, the second of its end."""

    vm: int
    target: int
    ends: int


class World:
    """Place, demand and received CPU (``done``) of every VM; one ``tick`` is a second. The same seed gives the same
    load."""

    def __init__(self, size: Size, seed: int, migration_seconds: int, layout: Layout | None = None) -> None:
        generator = np.random.default_rng(seed)
        self.size, self.migration_seconds = size, migration_seconds
        self.layout = layout or _made(size, generator)
        self.place: Ints = self.layout.place.copy()
        self.memory, shares = self.layout.memory, self.layout.shares
        self.pinned = np.array([PINNED in each for each in self.layout.labels] or [False] * len(self.place))
        calm = generator.uniform(size.lowest, size.highest, size.hosts)
        risen, rows = calm.copy(), np.arange(size.hosts)
        if layout is not None:
            rows = generator.permutation(np.flatnonzero(np.bincount(layout.place) >= _RELIEVABLE))
        self.overloaded: Ints = rows[: size.overloaded]
        risen[self.overloaded] = generator.uniform(size.least, size.most, size.overloaded)
        self._calm, self._risen = (level[self.place] * shares for level in (calm, risen))
        self.vcpus = np.maximum(1.0, np.ceil(_LARGE * shares * size.cores))
        self._generator = generator
        self._noise = np.zeros(len(self.place))
        self._sizes = np.sqrt(shares) * size.deviation
        self.second = -1_000_000
        self._carried = np.zeros(len(self.place))
        self.ways: list[Way] = []
        self.arrived: list[Way] = []

    def tick(self, second: int) -> None:
        """Advance to ``second``: due migrations end, noise continues."""
        self.second = second
        self.arrived = [each for each in self.ways if each.ends <= second]
        self.ways = [each for each in self.ways if each.ends > second]
        for each in self.arrived:
            self.place[each.vm] = each.target
        fresh = self._generator.normal(0.0, 1.0, len(self._noise)) * np.sqrt(1.0 - _CORRELATION**2)
        self._noise = _CORRELATION * self._noise + fresh
        levels = self.level_of_vms()
        sizes = levels * self.size.vm_noise if self.size.vm_noise else self._sizes
        wanted = np.maximum(levels + self._noise * sizes, 0.0) * self.size.cores
        self.done = serve(wanted, self._carried, self.place, self.size.cores, self.vcpus, np.zeros(self.size.hosts))
        self._carried = self.done.carried

    def begin(self, vm: int, target: int) -> None:
        """Start a migration; the VM's load is at its source until the end."""
        self.ways.append(Way(vm, target, self.second + self.migration_seconds))

    def relieve(self, leaving: Mapping[int, int]) -> None:
        """Move this number of the greatest VMs of each host at once to the then idlest hosts."""
        sizes = self.level_of_vms()
        for host, number in leaving.items():
            there = np.flatnonzero((self.place == host) & ~self.pinned)
            for vm in there[np.argsort(-sizes[there])][:number]:
                self.place[vm] = self.levels().argmin()

    def level_of_vms(self) -> Doubles:
        """Demand of VMs without noise, ratios of a host (V,)."""
        return self._risen if self.second >= 0 else self._calm

    def levels(self) -> Doubles:
        """Demand on hosts without noise (H,)."""
        return np.bincount(self.place, self.level_of_vms(), self.size.hosts).astype(np.float64)


def _made(size: Size, generator: np.random.Generator) -> Layout:
    """Equally many VMs on each host, with random memory and shares."""
    place = np.repeat(np.arange(size.hosts), size.vms)
    memory = generator.choice([1.0, 2.0, 4.0, 8.0], len(place)) * _GIB
    return Layout(place, generator.dirichlet(np.full(size.vms, size.evenness), size.hosts).ravel(), memory)
