"""Simulated hosts: guests, where they are, and what the probe would send."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from acquisition.model import codes
from experiments.decisions.arrays import Bools, Doubles, Ints
from experiments.decisions.contention import Second, serve
from experiments.decisions.filtering import Columns
from experiments.decisions.scenarios import Faults, Scenario, Size, Work
from filters.decisions import capacity

PRESSURE, RUNNABLE = "pressure_cpu_some_ratio", "tasks_runnable"

_PRESSURES = (PRESSURE, "pressure_memory_some_ratio")
_SUFFERING = ("vms_suffering_ratio", "vms_worst_suffering_ratio")
_DELAYS = ("vcpu_delay_ratio", "vcpu_suffering_ratio")
_GIB = float(1 << 30)
_MEMORY = (1.0, 2.0, 4.0, 8.0)  #: sizes of guests in GiB, drawn evenly: the time of a migration follows from them
_MEMORY_PER_GUEST = 8.0  #: GiB of a host for each of its guests: room for some more
_LINK, _TRAFFIC = 1.25e9, 0.3  #: bytes per second, and the part of it that a host at full CPU sends and receives
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
        """Metrics of the hosts; NaN are those that the kernel or libvirt does not keep."""
        whole = _MEMORY_PER_GUEST * _GIB * self._size.vms
        values = host_values(done, self.place, self._guests.memory * _GIB, self._size.cores, whole)
        for metrics, missing in (_PRESSURES, self._pressure), (_SUFFERING, self._delay):
            values |= {metric: values[metric] + missing for metric in metrics}
        return Columns(values, faults.codes[second])

    def guest_columns(self, done: Second, faults: Faults, second: int) -> Columns:
        """Metrics of the guests, which are as valid as those of their hosts."""
        values = guest_values(done, self._guests.memory * _GIB, self._guests.vcpus, self._size.cores)
        values |= {metric: values[metric] + self._delay for metric in _DELAYS}
        return Columns(values, faults.codes[second][self.place])


def host_values(done: Second, place: Ints, memory: Doubles, cores: float, whole: float) -> dict[str, Doubles]:
    """Metrics of hosts with ``whole`` bytes of memory, and guests of ``memory`` (V,) at ``place``."""
    nothing = np.zeros(len(done.busy))
    worst = nothing.copy()
    np.maximum.at(worst, place, done.delay)
    return {
        RUNNABLE: done.runnable + 1.0,  # the probe, which reads it
        "swap_in_bytes_per_second": nothing,
        "swap_out_bytes_per_second": nothing,
        "cpu_idle_ratio": 1.0 - done.busy,
        "cpu_iowait_ratio": nothing,
        "cpu_steal_ratio": nothing,
        capacity.MEMORY_TOTAL: nothing + whole,
        capacity.MEMORY_AVAILABLE: np.maximum(whole - np.bincount(place, memory, len(nothing)), 0.0),
        capacity.CPU_COUNT: nothing + cores,
        capacity.RECEIVED: _TRAFFIC * _LINK * done.busy,
        capacity.SENT: _TRAFFIC * _LINK * done.busy,
        capacity.LINK_SPEED: nothing + _LINK,
        PRESSURE: done.pressure,
        "pressure_memory_some_ratio": nothing,
        "vms_suffering_ratio": np.bincount(place, done.delay, len(nothing)),
        "vms_worst_suffering_ratio": worst,
    }


def guest_values(done: Second, memory: Doubles, vcpus: Doubles, cores: float) -> dict[str, Doubles]:
    """Metrics of guests with so much ``memory`` (V,) in bytes on hosts of so many ``cores``."""
    traffic = _TRAFFIC * _LINK * done.run / cores
    return {
        capacity.CPU_CORES: done.run,
        capacity.MEMORY_RESIDENT: memory,
        "vcpu_count": vcpus,
        capacity.MEMORY_ASSIGNED: memory,
        capacity.RECEIVED: traffic,
        capacity.SENT: traffic,
        "vcpu_run_ratio": done.run,
        "vcpu_delay_ratio": done.delay,
        "vcpu_throttled_ratio": np.zeros(len(done.run)),
        "vcpu_suffering_ratio": done.delay,
    }


def valid(columns: Columns) -> Bools:
    """Rows (R,) whose sample passed the checks."""
    return np.asarray(columns.codes == codes.VALID)
