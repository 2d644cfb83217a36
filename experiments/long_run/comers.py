"""Short-lived hosts and VMs: seen for some seconds, never again.

A quarter of them are hosts, each with three VMs.

    python -m experiments.long_run.comers ADDRESS,… N

N of them come every second. Their frames go straight into the raw streams, those of all hosts in one round trip. Talks
JSON lines: ``{"do": "stop"}`` is answered with ``{"hosts", "vms"}``, their numbers.
"""

from __future__ import annotations

import select
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from acquisition.link.cluster import Cluster, Command
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address, parse_address
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import ResourceSet, resource_set_id, schema_hash
from acquisition.wire import frame as wire
from acquisition.wire import keys, table
from acquisition.wire.frame import Frame
from acquisition.wire.layout import Layout
from acquisition.wire.table import Entity, Table
from experiments.processes.control import Child, Orders, python, say
from probes.metrics import HOST, VMS

VMS_OF_A_HOST = 3
_STAY_SECONDS = 20


class Comer:
    """One host. Its values are constant: only its identity matters."""

    def __init__(self, number: int, layout: Layout) -> None:
        self.name = f"comer-{number}"
        self._id = host_id(self.name)
        self._raw = keys.raw(layout.tag_of(self._id))
        guests = [self._entity("vm", f"{self.name}-{n}") for n in range(VMS_OF_A_HOST)]
        self._sets = ((HOST, [self._entity("host", self.name)]), (VMS, guests))
        self._made: dict[str, int] = dict.fromkeys((HOST.name, VMS.name), 0)
        self.seconds = 0

    def _entity(self, kind: str, name: str) -> Entity:
        return Entity(entity_id(kind, name, self.name), kind, name, self.name, name)

    def commands(self, now: float) -> Iterator[Command]:
        """Its commands for this second, tables at first."""
        for each, entities in self._sets:
            if not self.seconds:
                names = Table(self.name, each.name, 1.0, "comers", True, each.metrics, tuple(entities))
                yield self._add(each, 1, now, [], table.encode(names))
            yield self._add(each, self.seconds + 2, now, entities, b"")
        self.seconds += 1

    def _add(self, each: ResourceSet, sequence: int, now: float, entities: list[Entity], payload: bytes) -> Command:
        rows, columns = len(entities), len(each.metrics) if entities else 0
        made, cells = self._made[each.name], rows * columns
        self._made[each.name] += cells
        data = wire.encode(
            Frame(
                wire.KIND_TABLE if payload else wire.KIND_SAMPLES, schema_hash(each.metrics), self._id,
                resource_set_id(each.name), rows, columns, 1.0, 1, sequence, 1, made, int(now), now, now,
                struct.pack(f"<{rows}Q", *(entity.id for entity in entities)),
                struct.pack(f"<{cells}f", *[0.5] * cells), payload=payload,
            )
        )  # fmt: skip
        return self._raw, ("XADD", self._raw, "*", keys.ENTRY_FIELD, data)


@contextmanager
def running(shards: Sequence[Address], per_second: float) -> Iterator[Child | None]:
    """This program until the end of the block; None if ``per_second`` is 0."""
    if not per_second:
        yield None
        return
    addresses = ",".join(map(str, shards))
    with Child("hosts that come and go", python("experiments.long_run.comers", addresses, str(per_second))) as child:
        yield child


def stop(coming: Child | None) -> dict[str, int]:
    """End the arrivals; returns the number of hosts and VMs that have come and gone."""
    if coming is None:
        return {}
    coming.send({"do": "stop"})
    return {f"{name}_came": count for name, count in coming.receive(30.0).items()}


def main(arguments: list[str]) -> int:
    """Send until stopped or until standard input ends."""
    cluster = Cluster([parse_address(one) for one in arguments[0].split(",")])
    layout, per_second = read_layout(cluster), float(arguments[1]) / (1 + VMS_OF_A_HOST)
    orders = Orders()
    there: list[Comer] = []
    came, began = 0, time.monotonic()
    for second in range(1 << 62):
        while came < per_second * (second + 1):
            there.append(Comer(came, layout))
            came += 1
        now = time.time()
        cluster.gather([command for one in there for command in one.commands(now)])
        there = [one for one in there if one.seconds < _STAY_SECONDS]
        wait = max(0.0, began + second + 1 - time.monotonic())
        if select.select([orders.fileno()], [], [], wait)[0] and any(each["do"] == "stop" for each in orders.read()):
            break
    say({"hosts": came, "vms": came * VMS_OF_A_HOST})
    cluster.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
