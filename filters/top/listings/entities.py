"""Entity listings of a host: its VMs or processes, and metrics of one.

The metrics may also be the host's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from acquisition.model import codes
from acquisition.model.metric import HOST_SET
from acquisition.model.vm_state import RUNNING, UNKNOWN, state_of
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import STATES
from acquisition.snapshot.vms.placement import Placements
from acquisition.terminal import printable
from acquisition.wire.records.planes import LAST, MEAN, OWN, TREND, VARIANCE, Plane
from acquisition.wire.records.smoothed import Floats
from acquisition.wire.table import VM, Entity
from filters.text.owners import own_id
from filters.text.quantities import seconds
from filters.top.listings.listing import ENTITIES, METRICS, Listing, absent, failed, valid_age

CPU = "cpu_ratio"
MEMORY = "memory_resident_bytes"
_ORDER = ("vms", "processes")  #: shown first for a host; its own metrics come last
Numbers = npt.NDArray[np.float64]


def sets_of(snapshot: Snapshot, host: int) -> list[str]:
    """Available resource sets of a host: VMs, or else processes, first; its own metrics last.

    Empty until all of them have been read: only then is the first one known.
    """
    if any(block.host_id == host for block in snapshot.unread):
        return []
    names = {block.resource_set: block.shape[0] for block in snapshot.blocks if block.host_id == host}
    ordered = sorted(names, key=lambda name: (name == HOST_SET, *_rank(name)))
    filled = [name for name in ordered if names[name] or name == HOST_SET]
    return filled or ordered


def block_of(snapshot: Snapshot, host: int, resource_set: str) -> Block | None:
    """One block of a snapshot, or None."""
    blocks = (b for b in snapshot.blocks if b.host_id == host and b.resource_set == resource_set)
    return next(blocks, None)


def list_entities(block: Block, now: float, own: Iterable[str] = (), places: Placements | None = None) -> Listing:
    """One row per VM or process: CPU in cores, resident memory, and the metrics ``own`` that only VMs have.

    ``places``: VMs with several processes. A row that is not its VM's place has no
    figures, as it would make the VM look idle (acquisition.snapshot.vms.placement).
    """
    n = block.shape[0]
    index = {metric.name: column for column, metric in enumerate(block.metrics)}
    cpu = index.get(CPU)
    validity = _codes(block)
    states = _column(block, LAST, index["state"]) if "state" in index else None
    listing = _listing(
        ENTITIES,
        block,
        now,
        [entity.name for entity in block.entities],
        [label_of(entity) for entity in block.entities],
        block.ids,
        ["cores"] * n,
        {plane: _column(block, plane, cpu) for plane in _planes(block)},
        validity[:, cpu] if cpu is not None else np.full(n, block.absence, np.uint8),
        block.stale_seconds()[:, cpu] if cpu is not None else np.full(n, np.inf, np.float32),
    )._replace(
        memory=_column(block, MEAN, index.get(MEMORY)),
        memory_unit="bytes",
        invalid=failed(validity).sum(1),
        missing=absent(validity).sum(1),
        own={name: _column(block, MEAN, index[name]) for name in own if name in index},
        notes=[_stopped(state) for state in states.tolist()] if states is not None else (),
    )
    return _placed(listing, block, places) if places is not None and places.contested else listing


def _placed(listing: Listing, block: Block, places: Placements) -> Listing:
    """The listing with notes on migrating VMs."""
    reasons, notes = list(listing.reasons), list(listing.notes) or [""] * listing.rows
    figures = {name: getattr(listing, name).copy() for name in ("mean", "deviation", "trend", "last", "memory")}
    extra = {plane: column.copy() for plane, column in listing.extra.items()}
    own = {metric: column.copy() for metric, column in listing.own.items()}
    for i, entity in enumerate(block.entities):
        place = places.contested.get(places.id_of(block.host_id, entity))
        if place is None:
            continue
        if (block.host_id, entity.id) == (place.host_id, place.entity_id):
            notes[i] = f"→{place.other_host}" if place.other_host else notes[i]
        else:
            reasons[i] = f"{place.state}, its place is {place.host}"
            for column in (*figures.values(), *extra.values(), *own.values()):
                column[i] = np.nan
    return listing._replace(reasons=reasons, notes=notes, extra=extra, own=own, **figures)


def list_metrics(block: Block, now: float, entity: int | None = None) -> Listing:
    """One row per metric of an entity (None: the first, which is the host among a host's own metrics).

    An entity that no longer exists has no rows.
    """
    ids = block.ids.tolist()
    found = ids.index(entity) if entity in ids else None if entity is not None or not ids else 0
    metrics = block.metrics if found is not None else ()
    row, width = found or 0, slice(0, len(metrics))
    return _listing(
        METRICS,
        block,
        now,
        [metric.name for metric in metrics],
        [""] * len(metrics),
        np.arange(1, len(metrics) + 1, dtype=np.uint64),
        [metric.unit for metric in metrics],
        {plane: _row(block.figure(plane), row, width).astype(np.float64) for plane in _planes(block)},
        _row(_codes(block), row, width),
        _row(block.stale_seconds(), row, width),
    )


def _listing(
    kind: str,
    block: Block,
    now: float,
    names: list[str],
    labels: list[str],
    ids: npt.NDArray[np.uint64],
    units: list[str],
    figures: Mapping[Plane, Numbers],
    code: npt.NDArray[np.uint8],
    stale: Floats,
) -> Listing:
    n = len(names)
    age = valid_age(block.age_seconds, stale) if block.has_values else np.full(n, block.age_seconds)
    return Listing(
        kind,
        names,
        labels,
        ids,
        units,
        mean=figures[MEAN],
        deviation=figures[VARIANCE],
        trend=figures[TREND],
        last=figures[LAST],
        codes=code,
        memory=np.full(n, np.nan),
        invalid=failed(code).astype(np.int64),
        missing=absent(code).astype(np.int64),
        age=np.where(np.isfinite(age), age, np.nan),
        state=np.full(n, STATES.index(block.state), np.uint8),
        tick=np.full(n, block.tick, np.int64),
        interval=np.full(n, block.interval),
        now=now,
        reasons=[block.reason] * n,
        heading=heading_of(block),
        extra={plane: figures[plane] for plane in block.extra_planes},
    )


def _stopped(state: float) -> str:
    """Note for a VM with a known state other than running."""
    found = state_of(state)
    return "" if found in (RUNNING, UNKNOWN) else found


def label_of(entity: Entity) -> str:
    """The pid of a process; for a VM its number from the owner, else its uuid."""
    own = own_id(entity.name, entity.stable, entity.labels) if entity.kind == VM else entity.stable
    return printable(own.rpartition(":")[2])


def entity_name(block: Block | None, identity: int | None) -> str:
    """Name and label of an entity of a block, as far as known."""
    for entity in block.entities if block is not None else ():
        if entity.id == identity:
            return f"{printable(entity.name)} {label_of(entity)[:8]}".rstrip()
    return f"{identity:016x}" if identity is not None else "?"


def heading_of(block: Block) -> tuple[str, ...]:
    """Common heading of the rows of a block, in words: state, age, interval, reason it is not current, losses."""
    parts = [block.state, f"age {seconds(block.age_seconds)}", f"every {block.interval:g} s"]
    if block.reason:
        parts.append(printable(block.reason))
    quality = block.quality
    if quality.sheds:
        parts.append("its probe drops frames")
    if quality.lost_seconds is not None:
        parts.append(f"samples lost {seconds(quality.lost_seconds)} ago")
    return tuple(parts)


def _rank(name: str) -> tuple[int, str]:
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER)), name


def _codes(block: Block) -> npt.NDArray[np.uint8]:
    """Codes without the outlier flag."""
    plain: npt.NDArray[np.uint8] = block.codes() & np.uint8(codes.CODE_MASK)
    return plain


def _planes(block: Block) -> Iterable[Plane]:
    return (*OWN, *block.extra_planes)


def _column(block: Block, plane: Plane, column: int | None) -> Numbers:
    if column is None:
        return np.full(block.shape[0], np.nan)
    return plane.figures(block.shown(plane)[:, column]).astype(np.float64)


def _row(values: npt.NDArray[Any], row: int, width: slice) -> npt.NDArray[Any]:
    """The first ``width`` elements of a row; empty if there are no rows."""
    return values[row, width] if row < len(values) else values.reshape(-1)[:0]
