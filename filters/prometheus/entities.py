"""Entity labels: hosts, processes and VMs with their identities.

Marks processes that are not at their VM's place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from acquisition.model.codes import VALID
from acquisition.model.vm_state import state_of
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.vms.placement import Placement, Placements
from acquisition.wire.records.planes import LAST
from acquisition.wire.table import VM
from filters.prometheus import naming, syntax
from filters.prometheus.rows import ENTITY, is_host
from filters.prometheus.syntax import GAUGE, INFO, Family, Filled, Series

IDENTITY = Family(
    "shardpulse_entity", INFO,
    "What identifies an entity: stable survives a restart (host:pid, VM uuid), epoch does not; its labels: label_NAME",
    labels=(*ENTITY, "resource_set", "kind", "stable", "epoch"),
)  # fmt: skip
SHADOW = Family(
    "shardpulse_entity_shadow", GAUGE,
    "1 for each process of a migrating VM that is not its place: leave it out of sums over VMs; absent for all others",
    labels=(*ENTITY, "vm"),
)  # fmt: skip
VM_STATE = Family(
    "shardpulse_vm_state", GAUGE,
    "1 for each VM by its state: running, stopped (its figures are no load), incoming; absent where it is not known",
    labels=(*ENTITY, "state"),
)  # fmt: skip
RUNS_TWICE = Family(
    "shardpulse_vm_runs_twice", GAUGE,
    "1 for each VM whose vCPUs run on several hosts at once, by the words of these; absent for all others",
    labels=("vm", "hosts"),
)  # fmt: skip


def families(
    blocks: Sequence[Block],
    hosts: Mapping[int, str],
    sets: Mapping[int, str],
    placements: Placements,
    entities: bool,
) -> list[Filled]:
    """All families; ``hosts`` and ``sets`` are labels by number. Without ``entities``, only those of hosts."""
    shown = [block for block in blocks if entities or is_host(block)]
    infos = [row for block in shown for row in _identities(block, hosts[block.host_id], sets[block.set_id])]
    found: list[Filled] = [(IDENTITY, infos), (VM_STATE, [row for block in shown for row in _states(block, hosts)])]
    if entities and placements.shadows:
        found.append((SHADOW, [row for block in shown for row in _shadows(block, hosts, placements)]))
    found.append((RUNS_TWICE, [_twice(each) for each in placements.contested.values() if each.running_hosts]))
    return [(family, rows) for family, rows in found if rows or family is IDENTITY]


def _identities(block: Block, host: str, resource_set: str) -> list[Series]:
    """One info per entity named in a table."""
    entities = {entity.id: entity for entity in block.entities if entity.kind}
    found: list[Series] = []
    for entity in entities.values():
        values = (host, entity.name, f"{entity.id:016x}", resource_set, entity.kind, entity.stable, entity.epoch)
        own = {naming.label_name(str(name)): str(value) for name, value in entity.labels.items()}
        found.append((syntax.labels((*IDENTITY.labels, *own), (*values, *own.values())), 1))
    return found


def _twice(placement: Placement) -> Series:
    return syntax.labels(RUNS_TWICE.labels, (placement.vm, ",".join(placement.running_hosts))), 1


def _states(block: Block, hosts: Mapping[int, str]) -> list[Series]:
    """State at the newest tick, if valid."""
    column = next((place for place, metric in enumerate(block.metrics) if metric.name == "state"), None)
    if column is None:
        return []
    states, valid = block.figure(LAST)[:, column].tolist(), (block.codes()[:, column] == VALID).tolist()
    return [
        (syntax.labels(VM_STATE.labels, (hosts[block.host_id], one.name, f"{one.id:016x}", state_of(state))), 1)
        for one, state, known in zip(block.entities, states, valid, strict=True)
        if known and one.kind == VM
    ]


def _shadows(block: Block, hosts: Mapping[int, str], placements: Placements) -> list[Series]:
    entities = {entity.id: entity for entity in block.entities if placements.is_shadow(block.host_id, entity.id)}
    return [
        (syntax.labels(SHADOW.labels, (hosts[block.host_id], one.name, f"{one.id:016x}", one.stable)), 1)
        for one in entities.values()
    ]
