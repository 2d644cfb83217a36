"""Projection of a host with one VM more or less (pure).

A VM's load is added to, or subtracted from, every figure that is a level: averages, raw and recent
values, median and quartiles. Spread and CUSUM are unchanged, since a constant shift affects neither. The number
of values above a threshold becomes all or none of them, by the new level. So any rule can be applied
to the projected host.

Only resources with a known share of the VM are projected. Other figures of a verdict (pressure, waiting, the
run queue) do not follow from them by a sum: ``unprojected`` names them, and the plan stops after one
move of that host until it is measured again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from filters.decisions import capacity, hugepages
from filters.decisions.picture import CPU, MEMORY, NETWORK, Host, Reading, Vm
from filters.decisions.verdict import Verdict

PROJECTED = (CPU, MEMORY, NETWORK)
#: Prefixes of metrics that depend on a resource; all others depend on the CPU.
_BEGINNINGS = {
    MEMORY: ("memory_", "swap_", "pressure_memory_", "hugepages_"),
    NETWORK: ("network_", "link_"),
}


def named(verdict: Verdict) -> tuple[str, ...]:
    """The metrics that decide a verdict: its deciding figures that were measured."""
    deciding = verdict.figures[: verdict.deciding]
    measured = (each.name.partition(" ")[0] for each in deciding if each.validity and each.value is not None)
    return tuple(dict.fromkeys(measured))


def unprojected(verdict: Verdict) -> tuple[str, ...]:
    """The deciding metrics that cannot be projected for a host with one VM less."""
    return tuple(metric for metric in named(verdict) if metric not in PROJECTED)


def resource_of(metric: str) -> str:
    """The resource to free if this metric is too high."""
    found = (resource for resource, beginnings in _BEGINNINGS.items() if metric.startswith(beginnings))
    return next(found, CPU)


def with_vm(host: Host, vm: Vm) -> Host:
    """The host after ``vm`` has arrived. Resources with an unknown share are unchanged."""
    after, memory = loaded(host, vm), capacity.memory(vm)
    metrics = hugepages.claimed(vm, host) if memory is not None else ()
    return raised(after, metrics, -(memory or 0.0))._replace(vms=_Joined(host.vms, vm))


def without_vm(host: Host, vm: Vm) -> Host:
    """The host after ``vm`` has left."""
    return loaded(host, vm, -1.0)._replace(vms=tuple(each for each in host.vms if each.id != vm.id))


def loaded(host: Host, vm: Vm, sign: float = 1.0) -> Host:
    """The host with the load of ``vm`` added or subtracted; its VMs are unchanged."""
    readings = dict(host.readings)
    for resource in PROJECTED:
        reading = readings.get(resource)
        part = freed(vm, host, resource) if sign < 0 else capacity.share(vm, host, resource)
        if reading is not None and part is not None:
            readings[resource] = shift(reading, sign * part)
    return host._replace(readings=readings)


def raised(host: Host, metrics: Iterable[str], by: float) -> Host:
    """The host with the levels of ``metrics`` raised by ``by``."""
    changed = {metric: shift(host.readings[metric], by) for metric in metrics if metric in host.readings}
    return host._replace(readings={**host.readings, **changed})


def idle(host: Host) -> Host:
    """The host with no use of any resource."""
    readings = {metric: host.readings[metric] for metric in PROJECTED if metric in host.readings}
    nothing = {metric: shift(each, -(each.mean or 0.0)) for metric, each in readings.items()}
    return host._replace(readings={**host.readings, **nothing})


def freed(vm: Vm, host: Host, resource: str) -> float | None:
    """Room gained by the host when ``vm`` has left, as a ratio of capacity: of its memory only what it uses, while an
    arriving VM may need all that it was assigned."""
    if resource == MEMORY:
        resident, total = capacity.mean(vm.readings, capacity.MEMORY_RESIDENT), capacity.capacity(host, MEMORY)
        return resident / total if resident is not None and total is not None else None
    return capacity.share(vm, host, resource)


class _Joined(Sequence[Vm]):
    """VMs and one more, without creating those not accessed yet."""

    def __init__(self, there: Sequence[Vm], more: Vm) -> None:
        self._there, self._more = there, more

    @overload
    def __getitem__(self, index: int) -> Vm: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Vm]: ...
    def __getitem__(self, index: int | slice) -> Vm | Sequence[Vm]:
        return (*self._there, self._more)[index]

    def __iter__(self) -> Iterator[Vm]:
        yield from self._there
        yield self._more

    def __len__(self) -> int:
        return len(self._there) + 1


def shift(reading: Reading, by: float) -> Reading:
    """A reading with its level raised by ``by``."""
    inputs = reading.inputs
    if inputs is not None:
        mean = _plus(reading.mean, by)
        moved = inputs._replace(
            median=_plus(inputs.median, by), q1=_plus(inputs.q1, by), q3=_plus(inputs.q3, by),
            lowest=_plus(inputs.lowest, by), highest=_plus(inputs.highest, by),
        )  # fmt: skip
        if mean is not None:
            moved = moved._replace(above=inputs.counted_valid if mean > inputs.threshold else 0)
        inputs = moved
    return reading._replace(
        mean=_plus(reading.mean, by),
        last=_plus(reading.last, by),
        inputs=inputs,
        recent=tuple(value + by for value in reading.recent),
        recent_means=tuple(value + by for value in reading.recent_means),
    )


def _plus(value: float | None, by: float) -> float | None:
    return None if value is None else value + by
