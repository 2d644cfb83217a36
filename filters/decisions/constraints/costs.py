"""Cost of a move (time to copy a VM) and its benefit (pure).

Pre-copy migration copies the memory, then what was written meanwhile, and so on: memory / (bandwidth - dirty rate)
seconds (Clark and others, Live migration of virtual machines, NSDI 2005). If the dirty rate is unknown, memory /
bandwidth is a minimum, and reported as such.
"""

from __future__ import annotations

from typing import NamedTuple

from acquisition.config.decisions import Policy
from filters.decisions import capacity
from filters.decisions.constraints import projection
from filters.decisions.constraints.planning_state import PlanningState
from filters.decisions.picture import NETWORK, Host, Reading, Vm
from filters.decisions.verdict import Figure, measured

DIRTY_RATE = "memory_dirty_bytes_per_second"  #: of a VM, if a source reports it
_MIB = 1 << 20


class Cost(NamedTuple):
    """Cost and benefit of a move in words, with figures. ``seconds`` None: unknown."""

    reason: str
    seconds: float | None
    figures: tuple[Figure, ...]


def refusal(host: Host, vm: Vm, state: PlanningState) -> str | None:
    """A VM that writes memory as fast as it can be copied never arrives."""
    dirty = capacity.mean(vm.readings, DIRTY_RATE)
    if dirty is None or not vm.host:
        return None
    speed = _bandwidth(state.hosts[vm.host], host, state.policy)
    if speed is None or dirty < speed:
        return None
    return f"it writes {dirty / _MIB:.0f} MiB/s, as much as can be copied there ({speed / _MIB:.0f} MiB/s)"


def cost(vm: Vm, source: Host, destination: Host, resource: str, lacking: float | None, policy: Policy) -> Cost:
    """The time of a move, and what it frees of ``resource``. ``lacking``: how much of it the source lacks (None:
    nothing, or unknown)."""
    memory, speed = capacity.memory(vm), _bandwidth(source, destination, policy)
    dirty, freed = capacity.mean(vm.readings, DIRTY_RATE), projection.freed(vm, source, resource)
    seconds = duration(vm, source, destination, policy)
    words = "of unknown duration (bandwidth unknown)"
    if seconds is not None and memory is not None and speed:
        least = "at least " if dirty is None else ""
        words = f"{least}{seconds:.3g} s to copy {memory / _MIB:.0f} MiB at {speed / _MIB:.0f} MiB/s"
        words += "" if dirty is not None else ", its dirty rate is unknown"
    if freed is not None:
        words += f"; frees {freed:.3g} of {resource}"
        words += f", {lacking:.3g} is needed" if lacking is not None else ""
    words += capacity.unchecked(vm, destination)
    figures = [
        measured(capacity.memory_metric(vm), memory, vm.readings[capacity.memory_metric(vm)]),
        Figure("bandwidth", speed, "bytes/s"),
        measured(DIRTY_RATE, dirty, vm.readings.get(DIRTY_RATE) or Reading(DIRTY_RATE, unit="bytes/s")),
        Figure("migration time", seconds, "s"),
        Figure(f"{resource} freed", freed, "ratio"),
    ]
    figures += [Figure(f"{resource} needed", lacking, "ratio")] if lacking is not None else []
    return Cost(words, seconds, tuple(figures))


def duration(vm: Vm, source: Host, destination: Host, policy: Policy) -> float | None:
    """Seconds to copy a VM, a minimum if its dirty rate is unknown; None: unknown."""
    memory, speed = capacity.memory(vm), _bandwidth(source, destination, policy)
    left = (speed or 0.0) - (capacity.mean(vm.readings, DIRTY_RATE) or 0.0)
    return memory / left if memory is not None and left > 0.0 else None


def _bandwidth(source: Host, destination: Host, policy: Policy) -> float | None:
    """The configured bandwidth, or what is free of the slower link; None if that is unknown."""
    if policy.migration_bytes_per_second:
        return policy.migration_bytes_per_second
    speeds = [_free(each) for each in (source, destination)]
    known = [speed for speed in speeds if speed is not None]
    return min(known) if len(known) == len(speeds) else None


def _free(host: Host) -> float | None:
    speed, used = capacity.capacity(host, NETWORK), capacity.used(host, NETWORK)
    return None if speed is None or used is None else speed * max(0.0, 1.0 - used)
