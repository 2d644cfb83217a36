"""Pictures of the small data center as the planner sees them.

They have the filter's figures, made of its raw values.
"""

from __future__ import annotations

import math

import numpy as np

from acquisition.config.inputs import Inputs
from acquisition.config.settings import Filter
from acquisition.model.inputs import DecisionInputs
from experiments.planner.world import Doubles, World
from filters.decisions import capacity, ratios
from filters.decisions.picture import CPU, MEMORY, Host, Picture, Reading, Vm

_KEPT = Inputs()
_WINDOW, _COUNTED, _PLATEAU = (
    round(seconds) for seconds in (_KEPT.window_seconds, _KEPT.counted_seconds, _KEPT.plateau_seconds)
)
_ALPHA = 1.0 - math.exp(-1.0 / Filter().tau_seconds)
_THRESHOLD = _KEPT.thresholds[f"host.{CPU}"]


class Sight:
    """Averages of hosts and VMs and the last values of hosts, as the filter keeps them by default."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._means: Doubles | None = None
        self._vms: Doubles | None = None
        self._recent = np.zeros((world.size.hosts, 0))
        self._since = np.full(len(world.place), -math.inf)

    def look(self) -> None:
        """Take in what this second has brought."""
        hosts, vms = self._world.used()
        for each in self._world.arrived:
            self._since[each.vm] = self._world.second
        self._means = hosts if self._means is None else self._means + _ALPHA * (hosts - self._means)
        before = vms if self._vms is None else self._vms
        begins = self._since == self._world.second
        self._vms = np.where(begins, vms, before + _ALPHA * (vms - before))
        self._recent = np.column_stack([self._recent, hosts])[:, -_WINDOW:]

    def picture(self, vms: bool) -> Picture:
        """All hosts now, ``vms`` with what runs on them."""
        world = self._world
        there: list[list[int]] = [[] for _ in range(world.size.hosts)]
        if vms:
            for vm, place in enumerate(world.place):
                there[place].append(vm)
        hosts = tuple(self._host(row, there[row]) for row in range(world.size.hosts))
        return Picture(world.second, float(world.second), hosts)

    def _host(self, row: int, vms: list[int]) -> Host:
        assert self._means is not None
        size, recent = self._world.size, self._recent[row]
        used = float(self._world.memory[self._world.place == row].sum()) / size.memory
        readings = {
            CPU: _reading(CPU, float(self._means[row]), float(recent[-1]), _inputs(recent)),
            MEMORY: _reading(MEMORY, used),
            capacity.CPU_COUNT: _reading(capacity.CPU_COUNT, size.cores),
            capacity.MEMORY_TOTAL: _reading(capacity.MEMORY_TOTAL, size.memory),
        }
        guests = tuple(self._vm(each, readings) for each in vms)
        return Host(f"{row:016x}", f"h{row}", readings=readings, vms=guests, age_seconds=0.0)

    def _vm(self, row: int, host: dict[str, Reading]) -> Vm:
        assert self._vms is not None
        memory = float(self._world.memory[row])
        readings = {
            capacity.CPU_CORES: _reading(capacity.CPU_CORES, float(self._vms[row]) * self._world.size.cores),
            capacity.MEMORY_ASSIGNED: _reading(capacity.MEMORY_ASSIGNED, memory),
            capacity.MEMORY_RESIDENT: _reading(capacity.MEMORY_RESIDENT, memory),
        }
        for name, derive in ratios.of_vm(host).items():
            if made := derive(readings):
                readings[name] = made
        observed, labels = self._world.second - float(self._since[row]), self._world.layout.labels
        return Vm(f"vm-{row}", f"vm{row}", f"{self._world.place[row]:016x}", readings=readings,
                  labels=labels[row] if labels else {}, observed_seconds=min(observed, 1e6))  # fmt: skip


def _reading(metric: str, mean: float, last: float | None = None, inputs: DecisionInputs | None = None) -> Reading:
    return Reading(
        metric, mean, last=mean if last is None else last, validity="VALID", age_seconds=0.0, stale_seconds=0.0,
        inputs=inputs,
    )  # fmt: skip


def _inputs(recent: Doubles) -> DecisionInputs:
    """Inputs that the filter keeps beside the average for the default rule; what that does not ask for is 0."""
    counted, flat = recent[-_COUNTED:], recent[-_PLATEAU:]
    upper = float(np.percentile(recent, 75))
    return DecisionInputs(
        _WINDOW, len(recent), int((counted > _THRESHOLD).sum()), _THRESHOLD, 0.0, 0.0, None, None, None, upper, 0.0,
        len(recent) < _WINDOW, _COUNTED, len(counted), _PLATEAU, float(flat.min()), float(flat.max()), True,
        _KEPT.window_seconds, _KEPT.counted_seconds, _KEPT.plateau_seconds,
    )  # fmt: skip
