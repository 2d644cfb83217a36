"""Membership of an emulated host's rows: identities, joins and leaves.

Row 0 is the host itself and stays; the others are VMs. Every ``churn_frames`` frames one
change happens to a host, in turn: a VM is replaced, a VM leaves, a VM joins. Changes are
functions of (seed, host, number of the change), so that a verifier can repeat them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from acquisition.model.identity import entity_id, identity
from acquisition.wire.table import Entity
from experiments.emulation.workload import Workload, host_name


class Members(NamedTuple):
    """``serials`` number the rows in the order of their creation; ``ids`` are their 64-bit identities, little-endian,
    as in a frame; ``changes`` is the number so far."""

    serials: tuple[int, ...]
    ids: bytes
    changes: int


class Membership:
    """The rows of one host. ``step`` before every frame returns whether they changed."""

    __slots__ = ("_period", "_workload", "host_index", "members", "phase")

    def __init__(self, workload: Workload, host_index: int, serials: tuple[int, ...]) -> None:
        self.host_index = host_index
        self.members = Members(serials, b"".join(_id_bytes(host_index, serial) for serial in serials), 0)
        self._workload = workload
        self._period = workload.churn_frames
        self.phase = identity("churn", str(workload.seed), str(host_index)) % max(1, self._period)

    def step(self, number: int) -> bool:
        """Apply the changes before frame ``number``; True if rows joined (a table is due)."""
        period = self._period
        if not period or not number or (number + self.phase) % period:
            return False
        newest = self._workload.entities + self.members.changes
        self.members = _change(self.members, self._workload.seed, self.host_index, self._workload.entities)
        return newest in self.members.serials

    def entities(self) -> tuple[Entity, ...]:
        """The rows with their names, as in a table."""
        serials, ids, _ = self.members
        numbers = struct.unpack(f"<{len(serials)}Q", ids)
        return tuple(_named(self.host_index, serial, number) for serial, number in zip(serials, numbers, strict=True))


def first_serials(workload: Workload) -> tuple[int, ...]:
    """The rows of a host's first frame; all hosts share this one tuple."""
    return tuple(range(workload.entities))


def entity(host_index: int, serial: int) -> Entity:
    """Row ``serial`` of a host: 0 is the host, the others are VMs that never come back."""
    return _named(host_index, serial, _id_of(host_index, serial))


def _named(host_index: int, serial: int, number: int) -> Entity:
    host = host_name(host_index)
    if not serial:
        return Entity(number, "host", host, "1", host)
    return Entity(number, "vm", f"{host}/{serial}", "1", f"vm-{host_index}-{serial}")


def _id_of(host_index: int, serial: int) -> int:
    host = host_name(host_index)
    return entity_id("vm", f"{host}/{serial}", "1") if serial else entity_id("host", host, "1")


def _id_bytes(host_index: int, serial: int) -> bytes:
    return _id_of(host_index, serial).to_bytes(8, "little")


def _change(members: Members, seed: int, host_index: int, entities: int) -> Members:
    """The next change: replace, leave, join, replace …; a host always keeps its first row."""
    serials, ids, changes = members
    newest = entities + changes  # never used before, even if this change does not use it
    kind = changes % 3
    if kind == 2 or len(serials) == 1:
        return Members((*serials, newest), ids + _id_bytes(host_index, newest), changes + 1)
    row = 1 + identity("row", str(seed), str(host_index), str(changes)) % (len(serials) - 1)
    came, came_id = ((), b"") if kind == 1 else ((newest,), _id_bytes(host_index, newest))
    return Members(
        (*serials[:row], *came, *serials[row + 1 :]),
        ids[: 8 * row] + came_id + ids[8 * row + 8 :],
        changes + 1,
    )
