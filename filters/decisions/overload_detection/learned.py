"""Learned bursts: minimum length of an excursion to count as overload (pure).

A host that has had a burst in the last three hours, or has one due, is hot only if the current excursion is longer than
the longest of them by SPARE. This delays a confirmation by 12 s at most, and never cancels it: an excursion is not a
burst 12 s after a plateau would confirm it, nor is a load that exceeds its threshold for as long in three quarters of k
of n, on and off. There is no delay if guests have waited for MOST_WAITING, nor for periodic bursts that fill a quarter
of their period.
"""

from __future__ import annotations

from acquisition.model.inputs import Bursts
from filters.decisions.verdict import Figure

SPARE = 2.0
MOST_WAITING = 8.0  #: seconds of uninterrupted waiting of guests beyond the limit that override what was learned
_LONGEST = 15.0  #: seconds of an excursion that a plateau, after 4 s, would confirm 12 s earlier
_OFTEN = 4.0  #: bursts that recur within this multiple of their length are an overload with breaks
_HELD = 8.0  #: seconds for which k of n is held; it takes 2 s longer than a plateau, and 2 s in a row may be below
_REGULAR = 2  #: number of equal periods that establish a period
_SAME_SHARE, _SAME_SECONDS = 0.1, 3.0  #: tolerance of the time of a periodic burst


def needed(bursts: Bursts) -> float | None:
    """Seconds the current excursion must last to count as an overload; None: it already does."""
    habit = longest(bursts)
    if not habit or not (bursts.open_seconds or bursts.held_seconds):  # guests wait, but the load is not a burst
        return None
    if is_often(bursts) or (bursts.open_seconds and bursts.held_seconds > _HELD):
        return None
    limit = min(habit + SPARE, _LONGEST)
    return limit if bursts.open_seconds <= limit else None


def longest(bursts: Bursts) -> float:
    """Maximum length of a burst: the longest of the last three hours, or the one due."""
    return max(bursts.longest_seconds, bursts.last_seconds if is_due(bursts) else 0.0)


def is_often(bursts: Bursts) -> bool:
    """Whether bursts are periodic and fill a quarter of the period."""
    again = max(bursts.since_seconds - bursts.open_seconds, bursts.period_seconds)
    return bursts.regular >= _REGULAR and again <= _OFTEN * bursts.last_seconds


def is_due(bursts: Bursts) -> bool:
    """Whether the current excursion began when the next periodic burst was due."""
    if bursts.regular < _REGULAR or not bursts.open_seconds:
        return False
    missed = abs(bursts.since_seconds - bursts.open_seconds - bursts.period_seconds)
    return missed <= max(_SAME_SHARE * bursts.period_seconds, _SAME_SECONDS)


def figures(bursts: Bursts) -> tuple[Figure, ...]:
    """Learned figures, for an explanation."""
    found = (
        Figure("bursts in the last 3 hours", float(bursts.total), "count"),
        Figure("longest burst", bursts.longest_seconds, "s"),
        Figure("highest burst", bursts.height, "ratio"),
    )
    if bursts.regular < _REGULAR:
        return found
    due = Figure("next burst in", max(0.0, bursts.period_seconds - bursts.since_seconds), "s")
    return (*found, Figure("period of bursts", bursts.period_seconds, "s"), due)
