"""Overload judgement of all hosts by one rule, with hysteresis (pure).

Hysteresis comes in as a value and goes out as a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from filters.decisions.overload_detection.rule import Parameters, Rule
from filters.decisions.picture import DOWN, Picture
from filters.decisions.verdict import ABSTAINED, HOT, Outcome, Verdict

_NOTHING: Mapping[str, Verdict] = {}


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


def judge_all(
    picture: Picture,
    rule: Rule,
    parameters: Parameters,
    hot_before: frozenset[str] = frozenset(),
    known: Mapping[str, Verdict] = _NOTHING,
) -> Heat:
    """The verdicts of ``rule`` on all hosts; those that are ``known`` of the same readings stand.

    A host on which the rule abstains keeps its hysteresis as long as it is late; one that is down
    restarts when it comes back.
    """
    verdicts: dict[str, Verdict] = {}
    hot = set()
    for host in picture.hosts:
        was_hot = host.id in hot_before
        verdict = verdicts[host.id] = known.get(host.id) or rule.judge(host, parameters, was_hot)
        kept = verdict.outcome is ABSTAINED and was_hot and host.state != DOWN
        if verdict.outcome is HOT or kept:
            hot.add(host.id)
    return Heat(verdicts, frozenset(hot))
