"""Resource set document of one host: position, cause of delay, losses."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import CAUSES
from filters.documents.figures import shortened

#: Description of a cause, for the interface description.
CAUSE = "empty unless the host is unknown or down: " + "; ".join(f"{name}: {text}" for name, text in CAUSES.items())


class SetSummary(Struct, frozen=True):
    """``age_seconds`` counts to the reader's ``now``; ``lost_seconds`` from the newest loss to this tick (null:
    nothing was lost); ``coverage`` is the part of the samples of this epoch that arrived."""

    resource_set: str
    tick: int
    interval: float
    age_seconds: float | None
    state: str
    reason: str
    cause: Annotated[str, Meta(description=CAUSE)]
    since: float | None
    entities: int
    source: str
    coverage: float | None
    lost: int
    lost_seconds: float | None
    sheds: bool
    gaps: int


def summary(block: Block) -> SetSummary:
    """The summary of a block."""
    quality = block.quality
    return SetSummary(
        block.resource_set,
        block.tick,
        block.interval,
        shortened(block.age_seconds),
        block.state,
        block.reason,
        block.cause,
        block.since or None,
        block.shape[0],
        block.names.table.source if block.names is not None else "",
        shortened(quality.coverage),
        quality.lost,
        shortened(quality.lost_seconds, 3),
        quality.sheds,
        quality.gaps,
    )
