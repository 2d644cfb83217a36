"""Hot hosts and moves in words: the text of ``shardpulse query hot`` and ``moves`` (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from filters.decisions.deciding import Decided
from filters.decisions.picture import CURRENT, Host
from filters.decisions.plan import Move
from filters.decisions.refusal import Refusal
from filters.decisions.verdict import Figure, Outcome, Verdict
from filters.text.quantities import counted, printable, quantity, seconds

_INDENT = "    "


def hot_lines(decided: Decided, outcomes: Collection[Outcome]) -> Iterator[str]:
    """The hosts with these outcomes: the hot ones, the hottest first, those on which the rule abstained, the others."""
    heat, hosts = decided.heat, {host.id: host for host in decided.picture.hosts}
    found = {outcome: heat.having(outcome) for outcome in Outcome}
    counts = f"{len(found[Outcome.HOT])} hot, {len(found[Outcome.ABSTAINED])} abstained"
    if decided.blind:
        counts = f"none can be judged: {decided.blind}"
    yield from _head(decided, f"{counted(len(hosts), 'host')}: {counts}")
    for outcome in Outcome:
        for key in found[outcome] if outcome in outcomes else ():
            yield from _host(hosts[key], heat.verdicts[key])


def move_lines(decided: Decided) -> Iterator[str]:
    """Proposals with the rule, the figures, their age and validity; then what was refused and why."""
    plan, method = decided.plan, decided.method
    if plan is None:
        yield from _head(decided, f"no moves are proposed: {decided.unplanned}")
        return
    yield from _head(
        decided,
        f"{counted(len(decided.heat.having(Outcome.HOT)), 'hot host')}, {counted(len(plan.moves), 'move')} proposed"
        f" · VM: {method.selection.title} · destination: {method.placement.title}",
    )
    for number, move in enumerate(plan.moves, 1):
        yield from _move(number, move)
    for refusal in plan.refusals:
        yield _refusal(refusal)


def _head(decided: Decided, summary: str) -> Iterator[str]:
    yield f"tick {decided.picture.tick} · rule {decided.method.rule.name}: {decided.method.rule.title}"
    yield summary
    yield ""


def _host(host: Host, verdict: Verdict) -> Iterator[str]:
    state = "" if host.state == CURRENT else f" · {host.state}"
    yield f"{verdict.outcome.upper():<10}{printable(host.name)}{state} · age {seconds(host.age_seconds)}"
    yield f"{_INDENT}{printable(verdict.reason)}"
    yield from _figures(verdict.figures)


def _move(number: int, move: Move) -> Iterator[str]:
    vm, source, destination = (printable(each.name) for each in (move.vm, move.source, move.destination))
    yield f"{number}. {vm} ({printable(move.vm.id)}): {source} -> {destination}"
    yield f"{_INDENT}{source} (age {seconds(move.source.age_seconds)}) is hot: {printable(move.why_host.reason)}"
    yield from _figures(move.why_host.figures)
    yield f"{_INDENT}{vm} (age {seconds(move.vm.age_seconds)}): {printable(move.why_vm.reason)}"
    yield from _figures(move.why_vm.figures)
    yield f"{_INDENT}{destination} (age {seconds(move.destination.age_seconds)}): {move.why_destination}"
    yield from _figures(move.destination_figures)


def _refusal(refusal: Refusal) -> str:
    who = printable(refusal.host.name)
    if refusal.vm is not None:
        who = f"{printable(refusal.vm.name)} of {who}"
    return f"not moved: {who}: {printable(refusal.reason)}"


def _figures(figures: tuple[Figure, ...]) -> Iterator[str]:
    for figure in figures:
        text = f"{_INDENT}{_INDENT}{figure.name} = {quantity(figure.value, figure.unit)}"
        if figure.unit in ("ratio", "cores", "count"):
            text += f" {figure.unit}"
        if figure.validity:
            text += f" · {figure.validity} · age {seconds(figure.age_seconds)}"
            if figure.stale_seconds:
                text += f" · last valid {seconds(figure.stale_seconds)} before"
        yield text
