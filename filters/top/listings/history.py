"""History of listing rows, raw and smoothed, for sparklines; immutable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.recent import RecentTable
from filters.top.listings.entities import CPU
from filters.top.listings.listing import METRICS, STATE_CURRENT, Listing

#: Ticks kept, at 8 bytes per row each.
LENGTH = 60


class History(NamedTuple):
    """``raw`` and ``mean`` float32 (n, LENGTH), the newest tick on the right, NaN if there was nothing valid;
    ``filled`` int64 (n,): number of newest ticks that have been seen; older ones are unknown.
    ``newest``: newest tick of each interval at the last look, at time ``now``."""

    ids: npt.NDArray[np.uint64]
    tick: npt.NDArray[np.int64]
    raw: npt.NDArray[np.float32]
    mean: npt.NDArray[np.float32]
    filled: npt.NDArray[np.int64]
    newest: Mapping[float, int]
    now: float


def empty() -> History:
    """An empty history."""
    none = np.empty((0, LENGTH), np.float32)
    return History(np.empty(0, np.uint64), np.empty(0, np.int64), none, none, np.empty(0, np.int64), {}, 0.0)


def advance(history: History, listing: Listing) -> History:
    """The history after one more look: the rows of ``listing``, in its order, and no others.

    A row that was late at earlier looks gets a gap for each missed tick. Ticks between two looks that
    were not seen are skipped: nothing was missing, the picture is coarser.
    """
    known = _aligned(history, listing.ids)
    has_values = (np.isfinite(listing.mean) | np.isfinite(listing.last)) & (listing.state == STATE_CURRENT)
    before = np.zeros(listing.rows, np.int64)
    for interval, newest in history.newest.items():
        before[listing.interval == interval] = newest
    moved_on = has_values & ((known.filled == 0) | (listing.tick != known.tick))
    gaps = np.where(known.filled > 0, np.clip(before - known.tick, 0, LENGTH - 1), 0)
    step = np.where(moved_on, 1 + gaps, 0)
    raw, mean = _moved(known.raw, step), _moved(known.mean, step)
    valid = listing.codes == codes.VALID
    raw[has_values, -1] = np.where(valid, listing.last, np.nan)[has_values]
    mean[has_values, -1] = listing.mean[has_values]
    tick = np.where(has_values, listing.tick, known.tick)
    filled = np.minimum(known.filled + step, LENGTH)
    return History(listing.ids, tick, raw, mean, filled, _newest(history, listing), listing.now)


def completed(history: History, other: History) -> History:
    """The history with the rows of ``other`` for those without a history."""
    other = _aligned(other, history.ids)
    lacking = history.filled == 0
    raw, mean, filled, tick = (
        np.where(lacking if mine.ndim == 1 else lacking[:, None], others, mine)
        for mine, others in (
            (getattr(history, name), getattr(other, name)) for name in ("raw", "mean", "filled", "tick")
        )
    )
    return history._replace(raw=raw, mean=mean, filled=filled, tick=tick, newest=other.newest)


def _newest(history: History, listing: Listing) -> dict[float, int]:
    """The newest tick of each interval; without current rows, advanced by the clock."""
    newest = {}
    for interval in np.unique(listing.interval).tolist():
        current = listing.tick[(listing.interval == interval) & (listing.state == STATE_CURRENT)]
        if len(current):
            newest[interval] = int(current.max())
        elif interval > 0 and interval in history.newest:
            passed = math.floor(listing.now / interval) - math.floor(history.now / interval)
            newest[interval] = history.newest[interval] + max(0, passed)
    return newest


def _aligned(history: History, ids: npt.NDArray[np.uint64]) -> History:
    """The history in the order of ``ids``; new rows are empty."""
    if np.array_equal(history.ids, ids):
        return history
    n = len(ids)
    fresh = History(
        ids,
        np.zeros(n, np.int64),
        np.full((n, LENGTH), np.nan, np.float32),
        np.full((n, LENGTH), np.nan, np.float32),
        np.zeros(n, np.int64),
        history.newest,
        history.now,
    )
    _, here, there = np.intersect1d(ids, history.ids, return_indices=True)
    for name in ("tick", "raw", "mean", "filled"):
        getattr(fresh, name)[here] = getattr(history, name)[there]
    return fresh


def _moved(values: npt.NDArray[np.float32], step: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """A copy with the rows shifted left by ``step`` and filled with NaN."""
    moved = values.copy()
    for distance in np.unique(step).tolist():
        if distance:
            rows = step == distance
            moved[rows, : LENGTH - distance] = values[rows, distance:]
            moved[rows, LENGTH - distance :] = np.nan
    return moved


# -- Recent values from the filter as the start of a history: a screen that has just opened is not empty.

HOST_CPU = "cpu_busy_ratio"
Series = tuple[RecentTable, int, str] | None  #: of a row: its table, entity and metric


def history_of_hosts(listing: Listing, snapshot: Snapshot, known: Mapping[Owner, RecentTable]) -> History:
    """CPU history of all hosts with recent values that were read."""
    if not known:
        return empty()
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
    """History of the rows of one block, or of the metrics of one of its entities; ``past`` if none was kept."""
    table = known.get((block.host_id, block.set_id))
    if table is None:
        return past
    if listing.kind != METRICS:
        found = _history(listing, [(table, identity, CPU) for identity in listing.ids.tolist()])
    else:
        owner = entity if entity is not None else int(block.ids.tolist()[0]) if block.shape[0] else 0
        found = _history(listing, [(table, owner, name) for name in listing.names])
    return completed(found, past)


def _history(listing: Listing, series: Sequence[Series]) -> History:
    """Up to the tick of each row; ticks that never came are gaps, times before the record are unknown."""
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
