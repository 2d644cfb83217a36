"""Ratios compared by rules: CPU, memory and network, from the tables (pure).

If the filter derives them at every tick (acquisition.model.derived), its figures are used; these are for shards
with a filter that does not, and for VMs, where a ratio needs the capacity of the host.
A derived value is as valid, as old and as stale as the worst of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from acquisition.model.derived import DERIVED
from filters.decisions import capacity
from filters.decisions.picture import CPU, MEMORY, MISSING, NETWORK, VALID, Reading

Readings = Mapping[str, Reading]


def of_host(metric: str, readings: Readings) -> Reading | None:
    """A derived metric of a host with these readings; None if one of its parts is absent."""
    how = DERIVED[metric]
    extra = (part for part in how.extra if part in readings and not readings[part].validity.startswith(MISSING))
    there = (*how.parts, *extra)

    def formula(*values: float) -> float:
        known = dict(zip(there, values, strict=True))
        return float(how.formula(max, *(known.get(part, how.absent) for part in (*how.parts, *how.extra))))

    return _combine(metric, readings, there, formula)


HOST: dict[str, Callable[[Readings], Reading | None]] = {metric: partial(of_host, metric) for metric in DERIVED}


def of_vm(host: Readings) -> dict[str, Callable[[Readings], Reading | None]]:
    """Derived metrics for VMs of a host with these readings."""

    def cpu(vm: Readings) -> Reading | None:
        return _share(CPU, vm.get(capacity.CPU_CORES), _there(host, capacity.CPU_COUNT))

    def memory(vm: Readings) -> Reading | None:
        return _share(MEMORY, vm.get(capacity.MEMORY_RESIDENT), _there(host, capacity.MEMORY_TOTAL))

    def network(vm: Readings) -> Reading | None:
        busier = _combine(NETWORK, vm, (capacity.RECEIVED, capacity.SENT), max)
        return _share(NETWORK, busier, _there(host, capacity.LINK_SPEED))

    return {CPU: cpu, MEMORY: memory, NETWORK: network}


def _there(host: Readings, metric: str) -> float | None:
    return capacity.mean(host, metric) or None


def _share(name: str, part: Reading | None, whole: float | None) -> Reading | None:
    """A reading as a ratio of a capacity, including its inputs and recent values."""
    if part is None or whole is None:
        return None
    by = 1.0 / whole
    inputs = part.inputs
    if inputs is not None:
        inputs = inputs._replace(
            threshold=inputs.threshold * by, cusum=inputs.cusum * by,
            median=_times(inputs.median, by), mad=_times(inputs.mad, by),
            q1=_times(inputs.q1, by), q3=_times(inputs.q3, by),
            lowest=_times(inputs.lowest, by), highest=_times(inputs.highest, by),
        )  # fmt: skip
    return part._replace(
        metric=name, unit="ratio", mean=_times(part.mean, by), last=_times(part.last, by),
        deviation=_times(part.deviation, by), trend=_times(part.trend, by), inputs=inputs,
        recent=tuple(value * by for value in part.recent), extra={},
        recent_means=tuple(value * by for value in part.recent_means),
    )  # fmt: skip


def _combine(name: str, readings: Readings, parts: tuple[str, ...], formula: Callable[..., float]) -> Reading | None:
    """A reading combined from several; None if one of them is absent."""
    found = [readings[part] for part in parts if part in readings]
    if len(found) < len(parts):
        return None
    worst = next((part for part in found if not part.validity.startswith(VALID)), found[0])
    stale = [part.stale_seconds for part in found]
    ages = [part.age_seconds for part in found if part.age_seconds is not None]
    return Reading(
        name,
        mean=_apply(formula, [part.mean for part in found]),
        last=_apply(formula, [part.last for part in found]),
        validity=worst.validity,
        age_seconds=max(ages, default=None),
        stale_seconds=None if None in stale else max(seconds for seconds in stale if seconds is not None),
        unit="ratio",
        interval=found[0].interval,
    )


def _apply(formula: Callable[..., float], values: list[float | None]) -> float | None:
    """Result of the formula if all values are present; None otherwise, and on division by 0."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    try:
        return formula(*known)
    except ZeroDivisionError:
        return None


def _times(value: float | None, by: float) -> float | None:
    return None if value is None else value * by
