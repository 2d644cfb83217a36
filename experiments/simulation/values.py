"""Sample values of simulated hosts and guests, by the names of metrics."""

from __future__ import annotations

import numpy as np

from experiments.simulation.arrays import Doubles, Ints
from experiments.simulation.contention import Second
from filters.decisions import capacity

PRESSURE = "pressure_cpu_some_ratio"

_LINK, _TRAFFIC = 1.25e9, 0.3  #: bytes per second, and the fraction that a host at full CPU sends and receives


def host_values(done: Second, place: Ints, memory: Doubles, cores: float, whole: float) -> dict[str, Doubles]:
    """Metrics of hosts with ``whole`` bytes of memory, and guests of ``memory`` (V,) at ``place``."""
    nothing = np.zeros(len(done.busy))
    worst = nothing.copy()
    np.maximum.at(worst, place, done.delay)
    return {
        "tasks_runnable": done.runnable + 1.0,  # the probe itself
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
    """Metrics of guests with ``memory`` (V,) in bytes, on hosts with this number of ``cores``."""
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
