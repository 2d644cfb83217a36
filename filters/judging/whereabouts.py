"""Lookup of a VM's host by stable id or name.

The stable id survives migrations.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.vms.evidence import evidence_of
from acquisition.snapshot.vms.placement import settle
from acquisition.wire.table import Entity

_Rows = list[tuple[Block, int]]


class Whereabouts(NamedTuple):
    """One VM or process. ``block``, ``row``: its place; ``hosts``: ids of all hosts that report it."""

    entity: Entity
    block: Block
    row: int
    hosts: frozenset[str]


def whereabouts(snapshot: Snapshot, word: str, kinds: Collection[str], by_name: bool = True) -> list[Whereabouts]:
    """Entities matching ``word``: the one with this stable id (a uuid, in upper or lower case), otherwise all with this
    name."""
    small, ids, names = word.lower(), dict[str, _Rows](), dict[str, _Rows]()
    for block in snapshot.blocks:
        for row, entity in enumerate(block.entities):
            if entity.kind not in kinds:
                continue
            vm = snapshot.placements.id_of(block.host_id, entity)
            if vm in (word, small):
                ids.setdefault(vm, []).append((block, row))
            elif by_name and entity.name == word:
                names.setdefault(vm, []).append((block, row))
    return [_placed(snapshot, rows) for rows in (ids or names).values()]


def _placed(snapshot: Snapshot, rows: _Rows) -> Whereabouts:
    block, row = rows[0]
    entity = block.entities[row]
    if len(rows) > 1:
        place = snapshot.placements.contested.get(snapshot.placements.id_of(block.host_id, entity)) or settle(
            entity.stable, [evidence_of(*each) for each in rows]
        )
        block, row = next(
            (each, at) for each, at in rows if (each.host_id, each.entities[at].id) == (place.host_id, place.entity_id)
        )
    return Whereabouts(block.entities[row], block, row, frozenset(f"{each.host_id:016x}" for each, _ in rows))
