"""Migrations in progress, and previous hosts of VMs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.decisions.load import Bools, Floats, Ints
from experiments.decisions.monitor import Doubles

FLAP_SECONDS = 600  #: a VM that comes back within this time has flapped
OVERHEAD = 0.03  #: of a host's CPU, at both ends, while a VM is copied
_LONG_AGO = -1_000_000


class Begun(NamedTuple):
    """A migration that was begun at ``tick``; ``flap``: back to a host that the VM left a short while ago."""

    tick: int
    vm: int
    source: int
    target: int
    flap: bool


class Fleet:
    """Where every VM is, and what moves. A VM is at its source, with its load, until its migration ends."""

    def __init__(self, home: Ints, memory: Floats, hosts: int) -> None:
        self.place = home.copy()
        self.memory = memory
        self.since = np.full(len(home), _LONG_AGO)  #: tick of arrival, of VMs
        self.touched = np.full(hosts, _LONG_AGO)  #: tick at which a migration from or to a host last ended
        self.moving = np.zeros(hosts, np.int64)  #: migrations in progress per host, at both ends
        self.away = np.zeros(len(home), np.bool_)  #: VMs that are being moved
        self.begun: list[Begun] = []
        self._due: list[tuple[int, Begun]] = []
        self._left: dict[tuple[int, int], int] = {}  #: (vm, host): tick at which it left

    def duration(self, vm: int) -> int:
        """Seconds that a migration takes: two, and the memory over ten gigabit a second."""
        return 2 + round(float(self.memory[vm]))

    def begin(self, tick: int, vm: int, target: int) -> None:
        """Start moving a VM."""
        source = int(self.place[vm])
        flap = tick - self._left.get((vm, target), _LONG_AGO) <= FLAP_SECONDS
        begun = Begun(tick, vm, source, target, flap)
        self._left[vm, source] = tick
        self.begun.append(begun)
        self.away[vm] = True
        self.moving[[source, target]] += 1
        self._due.append((tick + self.duration(vm), begun))

    def finish(self, tick: int) -> None:
        """Put what is due in its new place."""
        for due, each in [item for item in self._due if item[0] <= tick]:
            self._due.remove((due, each))
            self.place[each.vm], self.since[each.vm], self.away[each.vm] = each.target, tick, False
            self.moving[[each.source, each.target]] -= 1
            self.touched[[each.source, each.target]] = tick

    def arriving(self, loads: Doubles) -> Doubles:
        """Loads that VMs on their way will bring to each host (H,), from the loads (V,) of VMs."""
        coming = np.zeros(len(self.moving), np.float64)
        for _, each in self._due:
            coming[each.target] += loads[each.vm]
        return coming

    def free(self, tick: int, settle_seconds: float) -> Bools:
        """Hosts (H,) that nothing leaves or reaches, and whose windows have settled."""
        free: Bools = (self.moving == 0) & (tick - self.touched >= settle_seconds)
        return free
