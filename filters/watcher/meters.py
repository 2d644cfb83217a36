"""Meters: Watcher's metrics from ours, in Watcher's units (pure).

Units are those of ``watcher.decision_engine.datasources.base.DataSourceBase``. "Megabytes" there
are 2**20 bytes: strategies subtract them from and divide them by the memory of Nova's nodes and
flavors, which Nova counts in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from acquisition.model.derived import CPU, DERIVED

#: The moving average of one of our metrics of the requested resource; raises NoValue.
Mean = Callable[[str], float]

COMPUTE_NODE = "compute_node"
INSTANCE = "instance"

_BUSY = DERIVED[CPU]
_KIBIBYTE = 1 << 10
_MEBIBYTE = 1 << 20


class NoValue(Exception):
    """There is no value fit for an answer; the message has the reason."""


class Meter(NamedTuple):
    """Definition of one of Watcher's metrics.

    ``name``: its name in Watcher's ``METRIC_MAP``; ``columns``: the metrics of ``resource_set`` that it
    needs; ``convert(mean, vcpus)`` returns it in Watcher's unit; ``vcpus``: those of the
    resource in Watcher's model (None if not given).
    """

    name: str
    resource_type: str
    resource_set: str
    columns: tuple[str, ...]
    convert: Callable[[Mean, int | None], float]


def _host_cpu_percent(mean: Mean, _: int | None) -> float:
    """Busy share of all cores, 0 to 100: neither idle nor waiting for I/O."""
    return _percent(_BUSY.formula(max, *map(mean, _BUSY.parts)))


def _host_ram_kibibytes(mean: Mean, _: int | None) -> float:
    """Memory available neither to programs without swapping nor to guests as huge pages."""
    used = mean("memory_total_bytes") - mean("memory_available_bytes")
    try:
        return (used - mean("hugepages_available_bytes")) / _KIBIBYTE
    except NoValue:  # free huge pages, if any, count as used
        return used / _KIBIBYTE


def _instance_cpu_percent(mean: Mean, vcpus: int | None) -> float:
    """CPU time of its process per vCPU, 0 to 100.

    Divided by the vCPUs known to Watcher, because its strategies multiply by these again; by those
    seen by the probe if Watcher knows none.
    """
    count = float(vcpus) if vcpus else mean("vcpu_count")
    if count <= 0:
        raise NoValue("it has no vCPUs")
    return _percent(mean("cpu_ratio") / count)


def _instance_ram_mebibytes(mean: Mean, _: int | None) -> float:
    return mean("memory_resident_bytes") / _MEBIBYTE


def _instance_ram_allocated_mebibytes(mean: Mean, _: int | None) -> float:
    return mean("memory_assigned_bytes") / _MEBIBYTE


def _percent(ratio: float) -> float:
    """0 to 100. The overhead of qemu's own threads can raise a busy guest a little above all its vCPUs."""
    return 100.0 * min(1.0, max(0.0, ratio))


#: By the key of Watcher's ``METRIC_MAP``. Other metrics are not measured.
METERS: dict[str, Meter] = {
    "host_cpu_usage": Meter(f"host/{CPU}", COMPUTE_NODE, "host", _BUSY.parts, _host_cpu_percent),
    "host_ram_usage": Meter(
        "host/memory_used_bytes",
        COMPUTE_NODE,
        "host",
        ("memory_total_bytes", "memory_available_bytes"),
        _host_ram_kibibytes,
    ),
    "instance_cpu_usage": Meter("vms/cpu_ratio", INSTANCE, "vms", ("cpu_ratio",), _instance_cpu_percent),
    "instance_ram_usage": Meter(
        "vms/memory_resident_bytes", INSTANCE, "vms", ("memory_resident_bytes",), _instance_ram_mebibytes
    ),
    "instance_ram_allocated": Meter(
        "vms/memory_assigned_bytes", INSTANCE, "vms", ("memory_assigned_bytes",), _instance_ram_allocated_mebibytes
    ),
}
