"""What the filter kept of the last ticks, as the beginning of a history: a screen that has just opened is not empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from acquisition.model import codes
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot
from acquisition.snapshot.block import Block
from acquisition.snapshot.owner import Owner
from acquisition.snapshot.recent import RecentTable
from filters.top import history
from filters.top.entities import CPU
from filters.top.history import LENGTH, History
from filters.top.listing import METRICS, Listing

HOST_CPU = "cpu_busy_ratio"
Series = tuple[RecentTable, int, str] | None  #: of a row: its table, entity and metric


def history_of_hosts(listing: Listing, snapshot: Snapshot, known: Mapping[Owner, RecentTable]) -> History:
    """The history of CPU use of all hosts whose recent values were read."""
    if not known:
        return history.empty()
    blocks = {block.host_id: block for block in snapshot.blocks if block.resource_set == HOST_SET}
    series: list[Series] = []
    for host in listing.ids.tolist():
        block = blocks.get(host)
        table = known.get((host, block.set_id)) if block is not None else None
        ids = block.ids.tolist() if block is not None else []
        series.append((table, ids[0], HOST_CPU) if table is not None and ids else None)
    return _history(listing, series)


def history_of_block(
    listing: Listing, block: Block, entity: int | None, known: Mapping[Owner, RecentTable], past: History
) -> History:
    """The history of the rows of one block, or of the metrics of one of its entities; ``past`` where none was kept."""
    table = known.get((block.host_id, block.set_id))
    if table is None:
        return past
    if listing.kind != METRICS:
        found = _history(listing, [(table, identity, CPU) for identity in listing.ids.tolist()])
    else:
        owner = entity if entity is not None else int(block.ids.tolist()[0]) if block.shape[0] else 0
        found = _history(listing, [(table, owner, name) for name in listing.names])
    return history.completed(found, past)


def _history(listing: Listing, series: Sequence[Series]) -> History:
    """Up to the tick of each row; ticks that never came are gaps, what is older than the record is not known."""
    n = listing.rows
    raw = np.full((n, LENGTH), np.nan, np.float32)
    mean = np.full((n, LENGTH), np.nan, np.float32)
    filled = np.zeros(n, np.int64)
    for row, place in enumerate(series):
        newest = int(listing.tick[row])
        for one in place[0].series(place[1], place[2]) if place is not None else ():
            back = newest - one.tick
            if not 0 <= back < LENGTH:
                continue
            filled[row] = max(filled[row], back + 1)
            valid = one.code & codes.CODE_MASK == codes.VALID
            raw[row, LENGTH - 1 - back] = one.raw if valid and one.raw is not None else np.nan
            mean[row, LENGTH - 1 - back] = one.smoothed if one.smoothed is not None else np.nan
    return History(listing.ids, listing.tick, raw, mean, filled, {}, listing.now)
