"""Data center of the screenshot: a child program with VMs of varying load.

Some hosts are overloaded.

    python -m experiments.screenshots.data_center     (orders and answers as JSON lines)

First order: ``{shards, racks, in_rack, hot}``, answered with ``{ready}``; then every host sends its own figures and
those of its VMs once a second, through the product's writer, until ``stop``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import numpy as np

from acquisition.link.resp import Address, parse_address
from acquisition.link.trust.credentials import Credentials
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import ResourceSet, resource_set_id, schema_hash
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.wire.frame import Samples
from acquisition.wire.table import Entity, Table
from experiments.emulation.director import Director, raise_descriptor_limit
from experiments.emulation.fleet import Fleet
from experiments.emulation.pacing import Paced
from experiments.processes.control import Orders, say
from probes.metrics import HOST, VMS

_CORES = 32.0
_GIB = float(1 << 30)
_MEMORY = 256 * _GIB
_LINK = 1.25e9
_RING_BYTES = 1 << 20
_RING_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_HOT, _QUIETEST, _BUSIEST = 0.9, 0.12, 0.68  #: busy ratio of a host on average
_CROWDED, _WAITS = 0.8, 0.8  #: busy ratio from which guests wait, and the part of the excess for which they do
_KINDS = ("web", "db", "cache", "batch", "build", "mail")


class Guest:
    """A VM: ``cores`` on average, up to a third more or less within a minute or two."""

    def __init__(self, name: str, cores: float, dice: random.Random) -> None:
        self.entity = Entity(entity_id("vm", name, "1"), "vm", name, "1", name)
        self.gib = dice.choice((4, 8, 16))
        self._cores = cores
        self._dice = dice
        self._period, self._phase = dice.uniform(40.0, 160.0), dice.uniform(0.0, math.tau)

    def figures(self, wall: float) -> dict[str, float]:
        """Its row at a moment."""
        wave = math.sin(math.tau * wall / self._period + self._phase)
        cores = self._cores * (1.0 + 0.12 * wave + self._dice.gauss(0.0, 0.04))
        return {
            "cpu_ratio": cores, "cpu_guest_ratio": 0.92 * cores, "cpu_user_ratio": 0.03 * cores,
            "cpu_system_ratio": 0.05 * cores, "vcpu_count": 8.0, "memory_assigned_bytes": self.gib * _GIB,
            "memory_virtual_bytes": self.gib * _GIB, "memory_resident_bytes": 0.7 * self.gib * _GIB,
            "network_receive_bytes_per_second": 4e6 * cores, "network_transmit_bytes_per_second": 6e6 * cores,
        }  # fmt: skip


class PicturedHost:
    """A host of the picture with the product's writer; ``busy`` is its load on average, of all cores."""

    def __init__(self, index: int, name: str, busy: float, seeds: Sequence[Address]) -> None:
        dice = random.Random(name)
        self.index = index
        self.name = name
        self.number = host_id(name)
        self.due = 0.0
        self.registered = (-1, 0, 0)
        self._dice = dice
        weights = [dice.uniform(0.4, 1.6) for _ in range(dice.randint(8, 14))]
        loads = (busy * _CORES * weight / sum(weights) for weight in weights)
        self._guests = [Guest(f"{dice.choice(_KINDS)}-{index:03}-{n:02}", load, dice) for n, load in enumerate(loads)]
        self._own = Entity(entity_id("host", name, "1"), "host", name, "1", name)
        outbox = Outbox(None, _RING_BYTES, _RING_SECONDS)
        self.writer = Writer(self.number, name, seeds, Credentials(), outbox)

    def early(self) -> float:
        """Always 0: sampled when due."""
        return 0.0

    def sample(self, tick: int, wall: float, monotonic: float) -> int:
        """The host's own row, and those of its VMs."""
        guests = [guest.figures(wall) for guest in self._guests]
        busy = sum(guest["cpu_ratio"] for guest in guests) / _CORES
        waits = _WAITS * max(0.0, busy - _CROWDED)
        for guest in guests:
            guest["vcpu_run_ratio"] = guest["cpu_guest_ratio"]
            guest["vcpu_delay_ratio"] = guest["vcpu_suffering_ratio"] = guest["vcpu_run_ratio"] * waits / (1.0 - waits)
        suffering = [guest["vcpu_suffering_ratio"] for guest in guests]
        used = sum(guest["memory_resident_bytes"] for guest in guests)
        own = {
            "cpu_idle_ratio": max(0.0, 0.98 - busy), "cpu_iowait_ratio": 0.01, "cpu_guest_ratio": busy,
            "cpu_system_ratio": 0.01, "cpu_count": _CORES, "memory_total_bytes": _MEMORY,
            "memory_available_bytes": _MEMORY - used, "link_speed_bytes_per_second": _LINK,
            "tasks_runnable": busy * _CORES, "vms_suffering_ratio": sum(suffering),
            "vms_worst_suffering_ratio": max(suffering),
            "network_receive_bytes_per_second": sum(one["network_receive_bytes_per_second"] for one in guests),
            "network_transmit_bytes_per_second": sum(one["network_transmit_bytes_per_second"] for one in guests),
        }  # fmt: skip
        when = (tick, wall, monotonic)
        entities = [guest.entity for guest in self._guests]
        return self._offer(HOST, [self._own], [own], when) + self._offer(VMS, entities, guests, when)

    def _offer(
        self, kind: ResourceSet, entities: list[Entity], rows: Sequence[Mapping[str, float]],
        when: tuple[int, float, float],
    ) -> int:  # fmt: skip
        number, metrics = resource_set_id(kind.name), kind.metrics
        if self.writer.wants_table(number):
            self.writer.offer_table(Table(self.name, kind.name, 1.0, "emulated", True, metrics, tuple(entities)), *when)
        ids = np.array([entity.id for entity in entities], "<u8")
        values = np.array([[row.get(metric.name, 0.0) for metric in metrics] for row in rows], "<f4")
        schema = schema_hash(metrics)
        self.writer.offer(Samples(number, schema, len(rows), len(metrics), 1.0, *when, ids.tobytes(), values.tobytes()))
        return values.size


def hosts(racks: int, in_rack: int, hot: int, seeds: Sequence[Address]) -> list[PicturedHost]:
    """All hosts; racks differ in their load, and ``hot`` hosts anywhere are overloaded."""
    dice = random.Random(1)
    count = racks * in_rack
    overloaded = set(dice.sample(range(count), hot))
    made = []
    for index in range(count):
        rack, place = divmod(index, in_rack)
        level = dice.betavariate(2.0, 2.0) * 0.5 + 0.25 * (1.0 + math.sin(rack * 1.3))
        busy = _HOT + 0.06 * dice.random() if index in overloaded else _QUIETEST + (_BUSIEST - _QUIETEST) * level
        made.append(PicturedHost(index, f"rack{rack + 1:02}-host{place + 1:02}", busy, seeds))
    return made


def main() -> None:
    """See the module."""
    orders = Orders()
    task = orders.wait()
    raise_descriptor_limit()
    seeds = [parse_address(text) for text in task["shards"]]
    fleet = Fleet(hosts(task["racks"], task["in_rack"], task["hot"], seeds), orders.fileno())
    say({"ready": True})
    Paced(fleet, 1.0).run(Director(fleet, orders, {"stop": lambda _: True}, _LOOK_SECONDS))
    fleet.close()


if __name__ == "__main__":
    main()
