"""Readings for Watcher: fresh values of hosts by name and VMs by uuid.

Every value that is not fit for an answer has a reason (``NoValue``); none is ever replaced by 0 or by
an older one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from acquisition.errors import EXIT_UNAVAILABLE
from acquisition.model import codes
from acquisition.model.metric import HOST_SET, resource_set_id
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.verdict import exit_code
from acquisition.snapshot.vms.evidence import VM, evidence_of
from acquisition.wire.table import Entity
from filters.watcher.meters import METERS, Meter, NoValue

VM_SET = "vms"
_SETS = frozenset(map(resource_set_id, (HOST_SET, VM_SET)))


def takes(_host: int, resource_set: int) -> bool:
    """Filter of the resource sets that Watcher needs: hosts and VMs, not processes."""
    return resource_set in _SETS


class Place(NamedTuple):
    """One entity: a row of a block."""

    block: Block
    row: int

    @property
    def entity(self) -> Entity:
        """Entity of the VM."""
        return self.block.entities[self.row]


class Readings:
    """One snapshot, indexed. ``max_age_seconds``: maximum age of the last valid sample in a mean."""

    def __init__(self, snapshot: Snapshot, max_age_seconds: float) -> None:
        self.errors = snapshot.errors
        self.is_whole = exit_code(snapshot) != EXIT_UNAVAILABLE  #: also if there is no host
        self.taken_at = snapshot.now  #: seconds since 1970, on the reader's clock
        self._max_age = max_age_seconds
        self._blocks = snapshot.blocks
        self._hosts = {place.block.host: place for place in _places(snapshot.blocks, HOST_SET, "host")}
        self._by_short_name = _by_short_name(self._hosts)
        self._vms = {
            place.entity.stable.lower(): place
            for place in _places(snapshot.blocks, VM_SET, VM)
            if not snapshot.placements.is_shadow(place.block.host_id, place.entity.id)
        }

    def host(self, hostname: str) -> Place:
        """The host named ``hostname`` by Watcher.

        By its full name; else by the part before the first dot, if Nova and the probe differ in whether a name is
        qualified and only one host matches. Raises NoValue.
        """
        found = self._hosts.get(hostname)
        if found is not None:
            return found
        short = hostname.partition(".")[0]
        names = self._by_short_name.get(short, [])
        # qualified names with different domains are different hosts
        meant = [name for name in names if "." not in name or "." not in hostname]
        if len(meant) > 1:
            raise NoValue(f"host name {hostname} is ambiguous: {', '.join(sorted(meant))}")
        if not meant:
            raise NoValue(f"host {hostname} is not monitored")
        return self._hosts[meant[0]]

    def vm(self, uuid: str) -> Place:
        """The process that runs the VM with this uuid: during a migration, not the receiving one.

        Raises NoValue for an unknown uuid, and if only the receiving process is known: its load is
        not the VM's.
        """
        place = self._vms.get(uuid.lower())
        if place is None:
            raise NoValue(f"VM with uuid {uuid} is not monitored")
        if evidence_of(place.block, place.row).waits_for_guest:
            raise NoValue(f"VM {uuid} is arriving on host {place.block.host}, which has not run it yet")
        return place

    def mean(self, place: Place, metric: str) -> float:
        """Moving average of a metric. Raises NoValue without a fresh one."""
        block, row = place
        column = next((i for i, each in enumerate(block.metrics) if each.name == metric), None)
        if column is None:
            raise NoValue(f"host {block.host} does not send {metric}")
        if not block.has_values:
            raise NoValue(f"host {block.host} is {block.state}: {block.reason}")
        value = float(block.plane("mean")[row, column])
        if not math.isfinite(value):
            code = codes.name_of(int(block.codes()[row, column]))
            raise NoValue(f"{metric} has never been valid on host {block.host}, now it is {code}")
        age = block.age_seconds + float(block.stale_seconds()[row, column])
        if not age <= self._max_age:
            raise NoValue(f"{metric} of host {block.host} was last valid {age:.1f} s ago")
        return value

    def sends(self, meter: Meter) -> bool:
        """Whether any host sends the columns of a meter."""
        return any(
            block.resource_set == meter.resource_set and {each.name for each in block.metrics} >= set(meter.columns)
            for block in self._blocks
        )

    def names(self) -> set[str]:
        """Names of all meters sent by some host."""
        return {meter.name for meter in METERS.values() if self.sends(meter)}


def _places(blocks: Iterable[Block], resource_set: str, kind: str) -> Iterable[Place]:
    for block in blocks:
        if block.resource_set == resource_set:
            for row, entity in enumerate(block.entities):
                if entity.kind == kind:
                    yield Place(block, row)


def _by_short_name(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.partition(".")[0], []).append(name)
    return found
