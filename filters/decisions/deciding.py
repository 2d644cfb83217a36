"""Decision in one call: hot hosts and moves from a picture.

Shared by command, service and views.

::

    method = method_of(settings.decisions)
    log = migration_store.read(reader.cluster, method.policy)
    decided = decide(observe(reader.coherent(), settings.decisions), method, log, hot_before, proposed)
    hot_before, proposed = decided.heat.hot, decided.plan.moves    # what was decided goes in and comes out as values
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from filters.decisions.method import Method
from filters.decisions.migrations import Log
from filters.decisions.overload_detection.rule import Parameters, Rule
from filters.decisions.picture import DOWN, Picture
from filters.decisions.plan import Move, Proposals, propose
from filters.decisions.verdict import ABSTAINED, HOT, Heat, Verdict

_NOTHING: Mapping[str, Verdict] = {}


class Decided(NamedTuple):
    """``blind``: why no host at all can be judged; it then does not follow that none is hot. ``plan`` is None then, and
    if the log of migrations could not be read (``unplanned`` gives the reason): without the state of hosts, or the
    VMs on their way, no moves are proposed."""

    picture: Picture
    method: Method
    heat: Heat
    plan: Proposals | None
    blind: str = ""
    unplanned: str = ""


def decide(
    picture: Picture,
    method: Method,
    log: Log | str | None,
    hot_before: frozenset[str] = frozenset(),
    proposed: Sequence[Move] = (),
    known: Mapping[str, Verdict] = _NOTHING,
) -> Decided:
    """Judge all hosts except those with ``known`` verdicts and, with a log of migrations, plan moves, keeping all that
    were ``proposed`` last and are still right. A string as ``log`` is the reason the log is missing; None: no moves
    are requested."""
    heat = judge_all(picture, method.rule, method.parameters, hot_before, known)
    blind = picture.blind or _unjudged(picture, heat)
    if log is None or isinstance(log, str) or blind:
        return Decided(picture, method, heat, None, blind, blind or str(log or ""))
    return Decided(picture, method, heat, propose(picture, heat, method, log.migrations, log.now, proposed))


def judge_all(
    picture: Picture,
    rule: Rule,
    parameters: Parameters,
    hot_before: frozenset[str] = frozenset(),
    known: Mapping[str, Verdict] = _NOTHING,
) -> Heat:
    """The verdicts of ``rule`` on all hosts; ``known`` verdicts on the same readings are kept.

    A host on which the rule abstains keeps its hysteresis as long as it is late; a host that is down
    starts over when it returns.
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


def _unjudged(picture: Picture, heat: Heat) -> str:
    """Reason the rule abstains on every host, such as windows that are not full; "" if it judges any, or there are no
    hosts."""
    if not picture.hosts:
        return ""
    if any(verdict.outcome is not ABSTAINED for verdict in heat.verdicts.values()):
        return ""
    first = picture.hosts[0]
    return (
        f"the rule abstains on all {len(picture.hosts)} hosts, for example {first.name}: "
        f"{heat.verdicts[first.id].reason}"
    )
