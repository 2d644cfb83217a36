"""Verdict of a rule: an outcome with its reason and the figures used."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from filters.decisions.picture import Reading


class Outcome(StrEnum):
    """Outcomes of a rule for a host, by the same word in all answers and questions, in the order of lists.

    ``suspect``: beyond a limit, not confirmed yet; ``saturated``: busy, and guests wait within the limit. Saturated
    hosts give VMs only if that pays.
    """

    HOT = "hot"
    SUSPECT = "suspect"
    SATURATED = "saturated"
    ABSTAINED = "abstained"
    NOT_HOT = "not_hot"


#: For use per host: lookups of enumeration members are slow (Python 3.11).
HOT, SUSPECT, SATURATED, ABSTAINED, NOT_HOT = Outcome


class Figure(NamedTuple):
    """One number of an explanation. Measured figures have ``validity`` and ``age_seconds``; figures
    configured or computed from others have neither."""

    name: str
    value: float | None
    unit: str = ""
    validity: str = ""
    age_seconds: float | None = None
    stale_seconds: float | None = None


class Part(NamedTuple):
    """Outcome of one part of a rule, such as ``memory``, with its own reason."""

    name: str
    outcome: Outcome
    reason: str


class Verdict(NamedTuple):
    """Verdict of a rule on a host; ``reason`` is one sentence for users. ``excess`` orders
    hot hosts: distance of the deciding figure above its limit (negative: below it; None: unknown).

    ``parts``: those of the rule, if any. ``lasting``: seconds for which the deciding figure has been beyond its limit,
    by the samples (None: it is not, or the time is not kept). The first ``deciding`` figures decide, all if it is None;
    the others are only shown.
    """

    outcome: Outcome
    reason: str
    figures: tuple[Figure, ...] = ()
    excess: float | None = None
    parts: tuple[Part, ...] = ()
    lasting: float | None = None
    deciding: int | None = None


class Heat(NamedTuple):
    """``verdicts``: by host id, in the picture's order. ``hot``: ``hot_before`` of the next judgement."""

    verdicts: Mapping[str, Verdict]
    hot: frozenset[str]

    def having(self, outcome: Outcome) -> list[str]:
        """Ids of the hosts with an outcome: those beyond a limit by decreasing excess, others in the picture's
        order."""
        found = [host for host, each in self.verdicts.items() if each.outcome is outcome]
        if outcome in (HOT, SUSPECT, SATURATED):
            found.sort(key=lambda host: (-(self.verdicts[host].excess or 0.0), host))
        return found


def aged(verdict: Verdict, seconds: float) -> Verdict:
    """The verdict ``seconds`` later: measured figures are older."""
    figures = [
        each
        if each.age_seconds is None
        else Figure(each.name, each.value, each.unit, each.validity, each.age_seconds + seconds, each.stale_seconds)
        for each in verdict.figures
    ]
    return Verdict(verdict.outcome, verdict.reason, tuple(figures), *verdict[3:])


def abstain(reason: str, *figures: Figure) -> Verdict:
    """Verdict of a rule that cannot decide, with the reason."""
    return Verdict(ABSTAINED, reason, figures)


def decide(hot: bool, reason: str, excess: float, *figures: Figure) -> Verdict:
    """Verdict hot or not hot."""
    return Verdict(HOT if hot else NOT_HOT, reason, figures, excess)


def measured(name: str, value: float | None, reading: Reading) -> Figure:
    """A figure with the age and validity of its reading."""
    return Figure(name, value, reading.unit, reading.validity, reading.age_seconds, reading.stale_seconds)
