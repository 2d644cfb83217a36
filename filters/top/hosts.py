"""All hosts of a snapshot as a listing: CPU used, memory used, age, state.

CPU used is a ratio of all cores of the host (acquisition.model.derived), and as moving averages are linear its mean and
trend are 1 - and - those of the parts. The deviation is the sum of the parts' deviations,
which is the most that it can be (they are correlated in an unknown way).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from acquisition.model import codes
from acquisition.model.derived import CPU, DERIVED, MEMORY
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot
from acquisition.snapshot.block import Block
from acquisition.snapshot.states import STATES
from filters.top.columns import Columns, gather
from filters.top.listing import HOSTS, Listing, valid_age

_METRICS = (*DERIVED[CPU].parts, *DERIVED[MEMORY].parts)
_NOT_SAMPLED = "its host metrics are not sampled"
Numbers = npt.NDArray[np.float64]


def list_hosts(snapshot: Snapshot) -> Listing:
    """One row per host. One whose own metrics are not sampled has no values, and says so."""
    chosen = _representatives([*snapshot.blocks, *snapshot.unread])
    sampled = np.array([block.resource_set == HOST_SET for block in chosen], bool)
    found = gather([block if own else _blank(block) for block, own in zip(chosen, sampled, strict=True)], _METRICS)
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
        memory=_memory(found.planes["mean"]),
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
    """Of each host the block of its own metrics, or else any one of it; in the order of names."""
    found: dict[int, Block] = {}
    for block in blocks:
        if block.resource_set == HOST_SET or block.host_id not in found:
            found[block.host_id] = block
    return sorted(found.values(), key=lambda block: block.host)


def _blank(block: Block) -> Block:
    return Block(block.host_id, block.set_id, None)


def _used(plane: npt.NDArray[np.float32]) -> Numbers:
    """Rounding must not make it negative, and an impossible raw value stays impossible."""
    used: Numbers = DERIVED[CPU].formula(np.maximum, *plane[:, :2].T.astype(np.float64))
    used[np.abs(used) < 1e-6] = 0.0
    return used


def _memory(plane: npt.NDArray[np.float32]) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        used: Numbers = DERIVED[MEMORY].formula(np.maximum, *plane[:, 2:].T.astype(np.float64))
    used[~np.isfinite(used)] = np.nan
    return used


def _worse(found: Columns) -> npt.NDArray[np.uint8]:
    """The code of the first of both parts that is not valid."""
    worse = found.codes[:, 0].copy()
    fine = worse == codes.VALID
    worse[fine] = found.codes[fine, 1]
    return worse
