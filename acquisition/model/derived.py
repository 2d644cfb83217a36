"""Derived metrics: shares of a host's capacity, computed from sampled metrics.

No probe sends them, and they mean the same on any host.

The filter computes them from the samples of a tick and smooths them like any other sample: the average of the busier
direction is not the busier average. If a filter does not, readers combine them from averages: exact for the
CPU (linear), close for memory and network (a capacity hardly changes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

CPU = "cpu_busy_ratio"
MEMORY = "memory_used_ratio"
NETWORK = "network_used_ratio"
WAITING = "cpu_waiting_ratio"

_LEAST_CORES = 1e-9  #: lower bound of demand: an idle host has share 0

Maximum = Callable[[Any, Any], Any]


class Derived(NamedTuple):
    """``formula(maximum, *parts, *extra)`` takes one number per part and ``max``, or one numpy array per part and
    ``numpy.maximum``; it returns the same kind. ``extra`` are parts that not every host has: ``absent`` if
    one is MISSING, or not a column of the frame."""

    help: str
    parts: tuple[str, ...]
    formula: Callable[..., Any]
    extra: tuple[str, ...] = ()
    absent: float = 0.0


def _cpu_busy(_maximum: Maximum, idle: Any, iowait: Any) -> Any:
    return 1.0 - idle - iowait


def _memory_used(_maximum: Maximum, available: Any, total: Any, hugepages: Any = 0.0) -> Any:
    return 1.0 - (available + hugepages) / total


def _network_used(maximum: Maximum, receive: Any, transmit: Any, speed: Any) -> Any:
    return maximum(receive, transmit) / speed


def _cpu_waiting(
    maximum: Maximum, idle: Any, iowait: Any, count: Any, runnable: Any, suffering: Any, pressure: Any
) -> Any:
    queued = maximum(maximum(pressure, runnable - count - 1.0), 0.0)  # the probe counts itself as runnable
    waiting = suffering * (suffering > 0.0) + queued * (suffering <= 0.0)  # 0 on a host without VMs
    return waiting / maximum((1.0 - idle - iowait) * count + waiting, _LEAST_CORES)


#: By name; all are ratios.
DERIVED: dict[str, Derived] = {
    CPU: Derived(
        "CPU time of all cores that was neither idle nor waiting for I/O",
        ("cpu_idle_ratio", "cpu_iowait_ratio"),
        _cpu_busy,
    ),
    MEMORY: Derived(
        "memory available neither to new programs nor, as free huge pages, to guests",
        ("memory_available_bytes", "memory_total_bytes"),
        _memory_used,
        ("hugepages_available_bytes",),
    ),
    NETWORK: Derived(
        "network traffic in the busier direction, as a fraction of link speed",
        ("network_receive_bytes_per_second", "network_transmit_bytes_per_second", "link_speed_bytes_per_second"),
        _network_used,
    ),
    WAITING: Derived(
        "share of the CPU time wanted that was waited for: by VMs, else as far as pressure and run queue say",
        ("cpu_idle_ratio", "cpu_iowait_ratio", "cpu_count", "tasks_runnable"),
        _cpu_waiting,
        ("vms_suffering_ratio", "pressure_cpu_some_ratio"),
        absent=-1.0,
    ),
}
