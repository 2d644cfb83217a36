"""Views of the small data center as the planner sees them.

Samples go through the product's filter step, and its readers compute the figures.
"""

from __future__ import annotations

import numpy as np

from acquisition.model import codes
from experiments.planner.world import World
from experiments.simulation.filtering import Columns, Filtered
from experiments.simulation.values import guest_values, host_values
from filters.decisions.picture import Picture

_LONG_AGO = -1_000_000
_EARLIER = 1_000  #: readable seconds before second 0: ticks begin at 0


class Sight:
    """Passes the samples of every second through the filter."""

    def __init__(self, world: World) -> None:
        vms = len(world.place)
        self._world, self._filter = world, Filtered(world.size.hosts, vms, 1, history=False)
        self._valid = [np.full(rows, codes.VALID, np.uint8) for rows in (world.size.hosts, vms)]
        self._since = np.full(vms, _LONG_AGO)

    def look(self) -> None:
        """Process the samples of this second."""
        world, cores = self._world, self._world.size.cores
        for each in world.arrived:
            self._since[each.vm] = world.second
        hosts = host_values(world.done, world.place, world.memory, cores, world.size.memory)
        guests = guest_values(world.done, world.memory, world.vcpus, cores)
        self._filter.take(_EARLIER + world.second, *map(Columns, (hosts, guests), self._valid))

    def picture(self) -> Picture:
        """All hosts now, with their VMs."""
        world = self._world
        return self._filter.picture(world.second, world.place, world.second - self._since, world.layout.labels)
