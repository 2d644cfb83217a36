"""Simulated hosts: guests, their places, and the metrics a probe would send."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from acquisition.model import codes
from experiments.decisions.scenarios import Faults, Scenario, Size, Work
from experiments.simulation.arrays import Bools, Doubles, Ints
from experiments.simulation.contention import Second, serve
from experiments.simulation.filtering import Columns
from experiments.simulation.values import PRESSURE, guest_values, host_values

_PRESSURES = (PRESSURE, "pressure_memory_some_ratio")
_SUFFERING = ("vms_suffering_ratio", "vms_worst_suffering_ratio")
_DELAYS = ("vcpu_delay_ratio", "vcpu_suffering_ratio")
_GIB = float(1 << 30)
_MEMORY = (1.0, 2.0, 4.0, 8.0)  #: guest sizes in GiB, drawn uniformly; they determine the migration time
_MEMORY_PER_GUEST = 8.0  #: GiB of host memory per guest: room for some more
_BURSTING = 1  #: guests of a host that carry its bursts
_LARGE = 4.0  #: vCPUs of the others, as a multiple of the cores they use on a full host


class Guests(NamedTuple):
    """All guests: ``home`` (V,) is their first host, ``share`` (V,) their part of its spread work, ``carrier`` (V,)
    their part of its bursts, ``vcpus`` and ``memory`` (V,) in GiB."""

    home: Ints
    share: Doubles
    carrier: Doubles
    vcpus: Doubles
    memory: Doubles

    def wanted(self, work: Work, second: int, cores: float) -> Doubles:
        """Core-seconds of work (V,) that arrive in a second."""
        spread, bursts = work.spread[second][self.home], work.bursts[second][self.home]
        return np.asarray((spread * self.share + bursts * self.carrier) * cores, np.float64)


def guests_of(seed: int, size: Size) -> Guests:
    """Guests of different sizes; the first of each host carries its bursts, with as many vCPUs as the host has."""
    draw = np.random.default_rng([seed, size.hosts, size.vms])
    share = draw.dirichlet(np.full(size.vms, 4.0), size.hosts).ravel()
    carrier = np.tile(np.arange(size.vms) < _BURSTING, size.hosts) / _BURSTING
    vcpus = np.maximum(1.0, np.ceil(_LARGE * share * size.cores))
    vcpus = np.minimum(np.where(carrier > 0.0, size.cores, vcpus), size.cores)
    memory = draw.choice(np.asarray(_MEMORY, np.float64), len(share))
    return Guests(np.repeat(np.arange(size.hosts), size.vms), share, carrier, vcpus, memory)


class Hosts:
    """Hosts over time; ``place`` (V,) may be changed between seconds."""

    def __init__(self, work: Work, guests: Guests, size: Size, scenario: Scenario) -> None:
        self.place = guests.home.copy()
        self._work, self._guests, self._size = work, guests, size
        self._pressure, self._delay = (0.0 if kept else np.nan for kept in (scenario.pressure, scenario.delay))
        self._carried = np.zeros(len(self.place))

    def second(self, second: int, overhead: Doubles) -> Second:
        """Run one second."""
        wanted = self._guests.wanted(self._work, second, self._size.cores)
        done = serve(wanted, self._carried, self.place, self._size.cores, self._guests.vcpus, overhead)
        self._carried = done.carried
        return done

    def host_columns(self, done: Second, faults: Faults, second: int) -> Columns:
        """Metrics of the hosts; NaN if the kernel or libvirt does not provide them."""
        whole = _MEMORY_PER_GUEST * _GIB * self._size.vms
        values = host_values(done, self.place, self._guests.memory * _GIB, self._size.cores, whole)
        for metrics, missing in (_PRESSURES, self._pressure), (_SUFFERING, self._delay):
            values |= {metric: values[metric] + missing for metric in metrics}
        return Columns(values, faults.codes[second])

    def guest_columns(self, done: Second, faults: Faults, second: int) -> Columns:
        """Metrics of the guests, with the validity of those of their hosts."""
        values = guest_values(done, self._guests.memory * _GIB, self._guests.vcpus, self._size.cores)
        values |= {metric: values[metric] + self._delay for metric in _DELAYS}
        return Columns(values, faults.codes[second][self.place])


def valid(columns: Columns) -> Bools:
    """Rows (R,) whose sample passed the checks."""
    return np.asarray(columns.codes == codes.VALID)
