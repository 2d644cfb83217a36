"""Pictures made by hand, for tests of rules and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acquisition.model.inputs import DecisionInputs
from filters.decisions import ratios
from filters.decisions.picture import CPU, MEMORY, NETWORK, Host, Picture, Reading, Vm

GIB = float(1 << 30)


def reading(metric: str = CPU, recent: Sequence[float] = (), **changes: Any) -> Reading:
    """A valid reading; mean and last are the last of ``recent`` where they are not given."""
    values: dict[str, Any] = {"validity": "VALID", "age_seconds": 0.5, "stale_seconds": 0.0, "unit": "ratio"}
    if recent:
        values |= {"mean": recent[-1], "last": recent[-1], "recent": tuple(recent), "recent_means": tuple(recent)}
    return Reading(metric, **{**values, **changes})


def constant(metric: str, value: float, count: int = 30, **changes: Any) -> Reading:
    """A reading that has been the same all along."""
    return reading(metric, [value] * count, **changes)


def inputs(**changes: Any) -> DecisionInputs:
    """Full windows of zeros."""
    full = DecisionInputs(30, 30, 0, 0.8, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, 5, 5)
    return full._replace(**changes)


def vm(name: str, cores: float = 1.0, gib: float = 2.0, *, host: str = "", **changes: Any) -> Vm:
    """A VM with ``cores`` in use and ``gib`` assigned, all of it resident."""
    readings = {
        "cpu_ratio": constant("cpu_ratio", cores),
        "memory_assigned_bytes": constant("memory_assigned_bytes", gib * GIB),
        "memory_resident_bytes": constant("memory_resident_bytes", gib * GIB),
        "network_receive_bytes_per_second": constant("network_receive_bytes_per_second", 0.0),
        "network_transmit_bytes_per_second": constant("network_transmit_bytes_per_second", 1e6),
    }
    return Vm(f"uuid-{name}", name, host, readings=readings, observed_seconds=1000.0, age_seconds=0.5, **changes)


def host(
    name: str,
    vms: Sequence[Vm] = (),
    *,
    cpu: float | None = None,
    memory: float | None = None,
    cores: float = 8.0,
    gib: float = 64.0,
    extra: Mapping[str, Reading] | None = None,
    **changes: Any,
) -> Host:
    """A host whose load is that of its VMs, unless ``cpu`` or ``memory`` say otherwise."""
    cpu = sum(each.readings["cpu_ratio"].mean or 0.0 for each in vms) / cores if cpu is None else cpu
    used = sum(each.readings["memory_resident_bytes"].mean or 0.0 for each in vms) / (gib * GIB)
    readings = {
        CPU: constant(CPU, cpu),
        MEMORY: constant(MEMORY, used if memory is None else memory),
        NETWORK: constant(NETWORK, 0.0),
        "cpu_count": constant("cpu_count", cores),
        "memory_total_bytes": constant("memory_total_bytes", gib * GIB),
        "link_speed_bytes_per_second": constant("link_speed_bytes_per_second", 1.25e9),
        **(extra or {}),
    }
    placed = tuple(_ratios(each._replace(host=name), readings) for each in vms)
    return Host(name, name, age_seconds=0.5, readings=readings, vms=placed, **changes)


def picture(*hosts: Host) -> Picture:
    return Picture(1000, 1000.5, hosts)


def _ratios(each: Vm, there: Mapping[str, Reading]) -> Vm:
    made = {name: derive(each.readings) for name, derive in ratios.of_vm(there).items()}
    return each._replace(readings={**each.readings, **{name: found for name, found in made.items() if found}})
