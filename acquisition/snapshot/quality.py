"""How complete a resource set of a host is: what was lost, how long ago, and whether more is being shed now.

All of it stands in the applied position, which every snapshot reads anyway.
"""

from __future__ import annotations

from typing import NamedTuple

from acquisition.wire.position import SHEDS, Position


class Quality(NamedTuple):
    """``coverage`` is the part of the samples that reached the filter, of those of this epoch whose fate is
    known: None before there are any. ``lost_seconds`` is how long before the newest tick the newest loss
    was, None when nothing was lost. A probe that ``sheds`` leaves out ticks, because more is made
    than the pipeline takes; averages over time stay right, counts of events do not.
    ``gaps`` counts gaps of unknown size (power cuts of the host), those of earlier epochs included.
    """

    coverage: float | None
    lost: int
    lost_seconds: float | None
    sheds: bool
    gaps: int


UNKNOWN = Quality(None, 0, None, False, 0)


def of(position: Position | None) -> Quality:
    """The quality that a position tells of."""
    if position is None:
        return UNKNOWN
    decided = position.applied + position.lost
    lost_seconds = max(0.0, (position.tick - position.lost_tick) * position.interval) if position.lost else None
    return Quality(
        position.applied / decided if decided else None,
        position.lost,
        lost_seconds,
        bool(position.flags & SHEDS),
        position.gaps,
    )
