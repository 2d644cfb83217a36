"""Where a VM is that somebody names: by its stable id, which survives migrations, or by its name."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from acquisition.snapshot import Snapshot
from acquisition.snapshot.block import Block
from acquisition.snapshot.placement import settle
from acquisition.snapshot.vm_evidence import VM, evidence_of
from acquisition.wire.table import Entity


class Whereabouts(NamedTuple):
    """One VM, or process: ``block`` and ``row`` are its place, ``hosts`` the ids of all hosts that report it."""

    entity: Entity
    block: Block
    row: int
    hosts: frozenset[str]


def whereabouts(snapshot: Snapshot, word: str, kinds: Collection[str] = (VM,)) -> list[Whereabouts]:
    """What ``word`` names: the one of this stable id (a uuid in letters of any size), else all of this name."""
    small, by_id, by_name = word.lower(), dict[str, list[tuple[Block, int]]](), dict[str, list[tuple[Block, int]]]()
    for block in snapshot.blocks:
        for row, entity in enumerate(block.entities):
            if entity.stable in (word, small) and entity.kind in kinds:
                by_id.setdefault(entity.stable, []).append((block, row))
            elif entity.name == word and entity.kind in kinds:
                by_name.setdefault(entity.stable, []).append((block, row))
    return [_placed(snapshot, rows) for rows in (by_id or by_name).values()]


def _placed(snapshot: Snapshot, rows: list[tuple[Block, int]]) -> Whereabouts:
    block, row = rows[0]
    entity = block.entities[row]
    if len(rows) > 1:
        place = snapshot.placements.contested.get(entity.stable) or settle(
            entity.stable, [evidence_of(*each) for each in rows]
        )
        block, row = next(
            (each, at) for each, at in rows if (each.host_id, each.entities[at].id) == (place.host_id, place.entity_id)
        )
    return Whereabouts(block.entities[row], block, row, frozenset(f"{each.host_id:016x}" for each, _ in rows))
