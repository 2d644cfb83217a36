"""Many small records side by side: the same metrics of thousands of hosts as arrays, without a loop over values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes, ticks
from acquisition.snapshot.block import Block
from acquisition.wire.planes import OWN
from acquisition.wire.smoothed import EXCEPTION, Floats, Head


class Columns(NamedTuple):
    """k blocks, m metrics. ``planes`` name (those of acquisition.wire.planes.OWN) -> float32 (k, m), NaN where there is
    no value, or what was smoothed is of the past; ``codes`` uint8 (k, m), MISSING where a block has no such metric,
    LATE where its values are late; ``stale`` float32 (k, m), seconds from the last valid value to the tick, infinite
    where there never was one; ``invalid`` and ``missing`` int64 (k,), the samples of the whole record whose check
    failed, or that have no value."""

    planes: dict[str, Floats]
    codes: npt.NDArray[np.uint8]
    stale: Floats
    invalid: npt.NDArray[np.int64]
    missing: npt.NDArray[np.int64]


def gather(blocks: Sequence[Block], metrics: Sequence[str]) -> Columns:
    """The first row of every block; what has no values, or no such metric, is missing."""
    shape = (len(blocks), len(metrics))
    found = Columns(
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


def _take(found: Columns, blocks: Sequence[Block], members: list[tuple[int, Head]], metrics: Sequence[str]) -> None:
    """The blocks of one layout at once; their names are those of the first one that has a table."""
    count, head = len(members), members[0][1]
    places = np.array([place for place, _ in members])
    known = next((blocks[place] for place, _ in members if blocks[place].names is not None), blocks[places[0]])
    index = {metric.name: column for column, metric in enumerate(known.metrics)}
    there = [(i, index[name]) for i, name in enumerate(metrics) if name in index]
    wanted, own = (np.array([pair[side] for pair in there], np.intp) for side in (0, 1))
    start, end = head.planes_at, head.exceptions_at  # the same in all of them
    raw = b"".join([blocks[place].data[start:end] for place, _ in members])
    cube = np.frombuffer(raw, "<f4").reshape(count, head.plane_count, head.entities, head.metrics)[:, :, 0, :]
    for i, plane in enumerate(head.planes):
        if plane.name in found.planes:
            found.planes[plane.name][np.ix_(places, wanted)] = cube[:, i, own]
    validity, stale = _exceptions(blocks, members)
    found.invalid[places] = ((validity != codes.VALID) & (validity != codes.MISSING)).sum(1)
    found.missing[places] = (validity == codes.MISSING).sum(1)
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
