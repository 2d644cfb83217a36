"""Host listing of a snapshot: CPU used, memory used, age, state.

CPU used is a ratio of all cores of the host (acquisition.model.derived), and as moving averages are linear, its mean
and trend are 1 - and - those of the parts. The deviation is the sum of the parts' deviations,
which is its maximum (their correlation is unknown).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes, ticks
from acquisition.model.derived import CPU, DERIVED, MEMORY
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import STATES
from acquisition.wire.records.planes import OWN
from acquisition.wire.records.smoothed import EXCEPTION, Floats, Head
from filters.top.listings.listing import HOSTS, Listing, absent, failed, valid_age

_METRICS = (*DERIVED[CPU].parts, *DERIVED[MEMORY].parts, *DERIVED[MEMORY].extra)
_MEMORY = slice(len(DERIVED[CPU].parts), None)
_NOT_SAMPLED = "its host metrics are not sampled"
Numbers = npt.NDArray[np.float64]


def list_hosts(snapshot: Snapshot) -> Listing:
    """One row per host. A host without samples of its own metrics has no values, and a note about it."""
    chosen = _representatives([*snapshot.blocks, *snapshot.unread])
    sampled = np.array([block.resource_set == HOST_SET for block in chosen], bool)
    found = _gather([block if own else _blank(block) for block, own in zip(chosen, sampled, strict=True)], _METRICS)
    ages = np.array([block.age_seconds for block in chosen], np.float64)
    stale = found.stale[:, :2].max(axis=1, initial=0.0)
    has_values = np.array([block.has_values for block in chosen], bool) & sampled
    return Listing(
        HOSTS,
        [block.host for block in chosen],
        [""] * len(chosen),
        np.array([block.host_id for block in chosen], np.uint64),
        ["ratio"] * len(chosen),
        mean=_used(found.planes["mean"]),
        deviation=np.sqrt(found.planes["variance"][:, :2].astype(np.float64)).sum(axis=1),
        trend=-found.planes["trend"][:, :2].astype(np.float64).sum(axis=1),
        last=_used(found.planes["last"]),
        codes=_worse(found),
        memory=_memory(found),
        invalid=found.invalid,
        missing=found.missing,
        age=np.where(has_values, valid_age(ages, stale), np.where(np.isfinite(ages), ages, np.nan)),
        state=np.array([STATES.index(block.state) for block in chosen], np.uint8),
        tick=np.array([block.tick for block in chosen], np.int64),
        interval=np.array([block.interval for block in chosen], np.float64),
        now=snapshot.now,
        reasons=[block.reason if own else _NOT_SAMPLED for block, own in zip(chosen, sampled, strict=True)],
    )


def _representatives(blocks: Iterable[Block]) -> list[Block]:
    """For each host the block of its own metrics, or else any of its blocks; ordered by name."""
    found: dict[int, Block] = {}
    for block in blocks:
        if block.resource_set == HOST_SET or block.host_id not in found:
            found[block.host_id] = block
    return sorted(found.values(), key=lambda block: block.host)


def _blank(block: Block) -> Block:
    return Block(block.host_id, block.set_id, None)


def _used(plane: npt.NDArray[np.float32]) -> Numbers:
    """Rounding must not make it negative, and an impossible raw value remains impossible."""
    used: Numbers = DERIVED[CPU].formula(np.maximum, *plane[:, :2].T.astype(np.float64))
    used[np.abs(used) < 1e-6] = 0.0
    return used


def _memory(found: Gathered) -> Numbers:
    parts = found.planes["mean"][:, _MEMORY].T.astype(np.float64)
    extra = len(DERIVED[MEMORY].parts)
    parts[extra:][found.codes[:, _MEMORY].T[extra:] == codes.MISSING] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        used: Numbers = DERIVED[MEMORY].formula(np.maximum, *parts)
    used[~np.isfinite(used)] = np.nan
    return used


def _worse(found: Gathered) -> npt.NDArray[np.uint8]:
    """The code of the first part that is not valid."""
    worse = found.codes[:, 0].copy()
    fine = worse == codes.VALID
    worse[fine] = found.codes[fine, 1]
    return worse


class Gathered(NamedTuple):
    """The same metrics of thousands of hosts as arrays: k blocks, m metrics.

    ``planes``: name (those of planes.OWN) -> float32 (k, m), NaN without a value or if the smoothed
    values are out of date; ``codes`` uint8 (k, m), MISSING if a block has no such metric, LATE if its values
    are late; ``stale`` float32 (k, m), seconds from the last valid value to the tick, infinite if there never was
    one; ``invalid`` and ``missing`` int64 (k,), the samples of the whole record that failed a check, or have no
    value.
    """

    planes: dict[str, Floats]
    codes: npt.NDArray[np.uint8]
    stale: Floats
    invalid: npt.NDArray[np.int64]
    missing: npt.NDArray[np.int64]


def _gather(blocks: Sequence[Block], metrics: Sequence[str]) -> Gathered:
    """The first row of every block; missing if there are no values, or no such metric."""
    shape = (len(blocks), len(metrics))
    found = Gathered(
        {name: np.full(shape, np.nan, np.float32) for name in [plane.name for plane in OWN]},
        np.full(shape, codes.MISSING, np.uint8),
        np.full(shape, np.inf, np.float32),
        np.zeros(len(blocks), np.int64),
        np.zeros(len(blocks), np.int64),
    )
    alike: dict[tuple[int, int, int, int, bytes], list[tuple[int, Head]]] = {}
    for place, block in enumerate(blocks):
        found.codes[place] = block.absence
        if block.has_values and block.head is not None and block.head.entities:
            head = block.head
            key = (head.schema, head.entities, head.metrics, head.inputs_size, head.plane_ids[: head.plane_count])
            alike.setdefault(key, []).append((place, head))
    for members in alike.values():
        _take(found, blocks, members, metrics)
    old = found.stale > np.array([ticks.stale_after(block.interval) for block in blocks], np.float32).reshape(-1, 1)
    for plane in OWN:
        if not plane.raw:
            found.planes[plane.name][old] = np.nan
    return found


def _take(found: Gathered, blocks: Sequence[Block], members: list[tuple[int, Head]], metrics: Sequence[str]) -> None:
    """The blocks of one layout together, with names from the first one that has a table."""
    count, head = len(members), members[0][1]
    places = np.array([place for place, _ in members])
    known = next((blocks[place] for place, _ in members if blocks[place].names is not None), blocks[places[0]])
    index = {metric.name: column for column, metric in enumerate(known.metrics)}
    there = [(i, index[name]) for i, name in enumerate(metrics) if name in index]
    wanted, own = (np.array([pair[side] for pair in there], np.intp) for side in (0, 1))
    start, end = head.planes_at, head.exceptions_at  # equal for all of them
    raw = b"".join([blocks[place].data[start:end] for place, _ in members])
    cube = np.frombuffer(raw, "<f4").reshape(count, head.plane_count, head.entities, head.metrics)[:, :, 0, :]
    for i, plane in enumerate(head.planes):
        if plane.name in found.planes:
            found.planes[plane.name][np.ix_(places, wanted)] = cube[:, i, own]
    validity, stale = _exceptions(blocks, members)
    found.invalid[places] = failed(validity).sum(1)
    found.missing[places] = absent(validity).sum(1)
    found.codes[np.ix_(places, wanted)] = validity[:, own]
    found.stale[np.ix_(places, wanted)] = stale[:, own]


def _exceptions(blocks: Sequence[Block], members: list[tuple[int, Head]]) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Codes without the outlier flag and ages of the whole records, (count, entities x metrics)."""
    head = members[0][1]
    shape = (len(members), head.entities * head.metrics)
    validity, stale = np.zeros(shape, np.uint8), np.zeros(shape, np.float32)
    counts = np.array([each.exceptions for _, each in members])
    some = np.flatnonzero(counts)
    lists = [blocks[members[at][0]].data[head.exceptions_at : members[at][1].size] for at in some.tolist()]
    rows = np.frombuffer(b"".join(lists), EXCEPTION)
    owner = np.repeat(some, counts[some])
    validity[owner, rows["index"]] = rows["code"].astype(np.uint8) & codes.CODE_MASK
    stale[owner, rows["index"]] = rows["age"]
    return validity, stale
