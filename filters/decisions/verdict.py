"""Verdict of a rule: hot, not hot or abstained, with the figures used."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from filters.decisions.picture import Reading


class Outcome(StrEnum):
    """Outcomes of a rule for a host, by the same word in all answers and questions, in the order of lists."""

    HOT = "hot"
    ABSTAINED = "abstained"
    NOT_HOT = "not_hot"


#: For those who ask for every host: members of an enumeration are slow to look up (Python 3.11).
HOT, ABSTAINED, NOT_HOT = Outcome


class Figure(NamedTuple):
    """One number of an explanation. What was measured has ``validity`` and ``age_seconds``; what was
    configured or computed from other figures has neither."""

    name: str
    value: float | None
    unit: str = ""
    validity: str = ""
    age_seconds: float | None = None
    stale_seconds: float | None = None


class Verdict(NamedTuple):
    """Verdict of a rule on a host; ``reason`` is one sentence for users. ``excess`` orders
    hot hosts: by how much the deciding figure is above its limit (below 0: under it; None: unknown)."""

    outcome: Outcome
    reason: str
    figures: tuple[Figure, ...] = ()
    excess: float | None = None


class Heat(NamedTuple):
    """``verdicts`` by host id, in the picture's order. ``hot`` is what the next judgement takes as ``hot_before``."""

    verdicts: Mapping[str, Verdict]
    hot: frozenset[str]

    def having(self, outcome: Outcome) -> list[str]:
        """Ids of the hosts with an outcome: of the hot ones that first which exceeds its limit most, others in the
        picture's order."""
        found = [host for host, each in self.verdicts.items() if each.outcome is outcome]
        if outcome is HOT:
            found.sort(key=lambda host: (-(self.verdicts[host].excess or 0.0), host))
        return found


def aged(verdict: Verdict, seconds: float) -> Verdict:
    """The verdict so many seconds later: what was measured is older."""
    figures = [
        each
        if each.age_seconds is None
        else Figure(each.name, each.value, each.unit, each.validity, each.age_seconds + seconds, each.stale_seconds)
        for each in verdict.figures
    ]
    return Verdict(verdict.outcome, verdict.reason, tuple(figures), verdict.excess)


def abstain(reason: str, *figures: Figure) -> Verdict:
    """The rule does not know, and says why."""
    return Verdict(ABSTAINED, reason, figures)


def decide(hot: bool, reason: str, excess: float, *figures: Figure) -> Verdict:
    """Hot or not hot."""
    return Verdict(HOT if hot else NOT_HOT, reason, figures, excess)


def measured(name: str, value: float | None, reading: Reading) -> Figure:
    """A figure with the age and validity of the reading that it comes from."""
    return Figure(name, value, reading.unit, reading.validity, reading.age_seconds, reading.stale_seconds)
