"""``shardpulse query hot`` and ``shardpulse query moves``, with reasons."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, TextIO

from acquisition import help_text
from acquisition.config import Settings, endpoints
from acquisition.config import loader as config
from acquisition.config.decisions import Decisions
from acquisition.config.metric_registry import load_checked
from acquisition.errors import EXIT_OK, EXIT_TEMPORARY, EXIT_UNAVAILABLE, TemporaryError, UsageError
from acquisition.help_text import add_watch, repeat
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.values.rows import Selection
from acquisition.terminal import printable, say
from filters.decisions import catalogue, overload_detection, vm_placement, vm_selection
from filters.decisions.constraints.vms import is_evacuated
from filters.decisions.deciding import Decided
from filters.decisions.method import method_of
from filters.decisions.picture import CURRENT, Host
from filters.decisions.plan import RELIEF, Move
from filters.decisions.refusal import Refusal
from filters.decisions.verdict import Figure, Outcome, Verdict
from filters.documents.encoding import encode
from filters.documents.verdicts import LISTED, Hosts, hot_document, moves_document
from filters.judging.judge import TickJudge
from filters.text.quantities import counted, quantity, seconds

# -- Common parts of all forms of ``shardpulse query``.


def add_common(parser: argparse.ArgumentParser) -> None:
    """Output, repetition, grace time and the location of the shards."""
    add_watch(parser)
    parser.add_argument(
        "--grace", type=help_text.number(0, 86400), metavar="S", help="seconds to wait for late hosts ([snapshot])"
    )
    help_text.add_shards(parser)


def reader(settings: Settings, options: argparse.Namespace) -> SnapshotReader:
    """A reader according to the configuration and these options."""
    shards = endpoints.with_addresses(settings.shards, options.shards)
    grace = settings.snapshot.grace_seconds if options.grace is None else options.grace
    return SnapshotReader(endpoints.connect(shards), grace, settings.snapshot.down_after_seconds)


def warn(decided: Decided, as_json: bool) -> None:
    """Report what could not be read. Raises TemporaryError if there is no host, unless a document reports it."""
    hostless = not (decided.picture.hosts or as_json)
    for error in decided.picture.errors:
        if not (hostless and error == decided.blind):
            say(f"shardpulse query: warning: {error}")
    if hostless:
        raise TemporaryError(decided.blind)


def exit_code(decided: Decided) -> int:
    """Exit code for failed reads, or for nothing that can be judged."""
    hostless = not decided.picture.hosts and set(decided.picture.errors) <= {decided.blind}
    if not hostless and (decided.picture.errors or (decided.unplanned and not decided.blind)):
        return EXIT_UNAVAILABLE
    return EXIT_TEMPORARY if decided.blind else EXIT_OK


# -- Hot hosts and moves in words: the text of ``shardpulse query hot`` and ``moves`` (pure).

_INDENT = "    "
_NAMED = 3  #: names in the line that counts refusals


def hot_lines(decided: Decided, outcomes: Collection[Outcome]) -> Iterator[str]:
    """Hosts with these outcomes, in the order of the outcomes; of those beyond a limit, the largest excess
    first."""
    heat, hosts = decided.heat, {host.id: host for host in decided.picture.hosts}
    found = {outcome: heat.having(outcome) for outcome in Outcome}
    counts = ", ".join(
        f"{len(found[outcome])} {outcome}"
        for outcome in LISTED
        if found[outcome] or outcome in (Outcome.HOT, Outcome.ABSTAINED)
    )
    if decided.blind:
        counts = f"no host can be judged: {decided.blind}"
    yield from head_lines(decided, f"{counted(len(hosts), 'host')}: {counts}")
    for outcome in Outcome:
        for key in found[outcome] if outcome in outcomes else ():
            yield from _host(hosts[key], heat.verdicts[key])


def explained_lines(decided: Decided, wanted: Hosts) -> Iterator[str]:
    """Everything known about the verdicts on the ``wanted`` hosts: parts with their reasons, figures."""
    found = list(filter(wanted.takes, decided.picture.hosts))
    if not found:
        raise UsageError("no host has this name or id")
    for host in found:
        verdict = decided.heat.verdicts[host.id]
        yield from _host(host, verdict._replace(figures=()))
        for part in verdict.parts:
            if part.reason != verdict.reason:
                yield f"{_INDENT}{part.name}: {part.outcome}: {printable(part.reason)}"
        yield from figure_lines(verdict.figures)


def move_lines(decided: Decided) -> Iterator[str]:
    """Proposals with the rule, the figures, their age and validity; then refusals with reasons."""
    plan, method = decided.plan, decided.method
    if plan is None:
        yield from head_lines(decided, f"no moves are proposed: {decided.unplanned}")
        return
    leaving = sum(map(is_evacuated, decided.picture.hosts))
    emptied = f", {leaving} in maintenance" if leaving else ""
    yield from head_lines(
        decided,
        f"{counted(len(decided.heat.having(Outcome.HOT)), 'hot host')}{emptied}, "
        f"{counted(len(plan.moves), 'move')} proposed"
        f"{_considered(plan.refusals)} · VM: {method.selection.title} · destination: {method.placement.title}",
    )
    for number, move in enumerate(plan.moves, 1):
        yield from _move(number, move)
    for refusal in plan.refusals:
        yield _refusal(refusal)


def head_lines(decided: Decided, summary: str) -> Iterator[str]:
    """Tick, rule and a summary."""
    tick = f"tick {decided.picture.tick}" if decided.picture.tick else "no current tick"
    yield f"{tick} · rule {decided.method.rule.name}: {decided.method.rule.title}"
    yield summary
    yield ""


def _host(host: Host, verdict: Verdict) -> Iterator[str]:
    state = "" if host.state == CURRENT else f" · {host.state}"
    yield f"{verdict.outcome.upper():<10}{printable(host.name)}{state} · age {seconds(host.age_seconds)}"
    yield f"{_INDENT}{printable(verdict.reason)}"
    yield from figure_lines(verdict.figures)


def _move(number: int, move: Move) -> Iterator[str]:
    vm, source, destination = (printable(each.name) for each in (move.vm, move.source, move.destination))
    yield f"{number}. {vm} ({printable(move.vm.id)}): {source} -> {destination}"
    hot = " is hot" if move.cause == RELIEF else ""
    yield f"{_INDENT}{source} (age {seconds(move.source.age_seconds)}){hot}: {printable(move.why_host.reason)}"
    yield from figure_lines(move.why_host.figures)
    yield f"{_INDENT}{vm} (age {seconds(move.vm.age_seconds)}): {printable(move.why_vm.reason)}"
    yield from figure_lines(move.why_vm.figures)
    yield f"{_INDENT}{destination} (age {seconds(move.destination.age_seconds)}): {move.why_destination}"
    yield from figure_lines(move.destination_figures)
    yield f"{_INDENT}cost: {printable(move.cost.reason)}"
    yield from figure_lines(move.cost.figures)


def _refusal(refusal: Refusal) -> str:
    who = printable(refusal.host.name)
    if refusal.vm is not None:
        who = f"{printable(refusal.vm.name)} of {who}"
    return f"not moved: {who}: {printable(refusal.reason)}"


def _considered(refusals: Sequence[Refusal]) -> str:
    """Summary of options considered and not proposed: reasons follow below."""
    hosts = [each.host.name for each in refusals if each.vm is None]
    vms = [each.vm.name for each in refusals if each.vm is not None]
    parts = [
        f"{counted(len(names), noun)} ({', '.join(names[:_NAMED])}{', …' * (len(names) > _NAMED)})"
        for noun, names in (("host", hosts), ("VM", vms))
        if names
    ]
    return f" · considered and not moved: {' and '.join(parts)}" if parts else ""


def figure_lines(figures: tuple[Figure, ...]) -> Iterator[str]:
    """Figures of an explanation, one a line, with validity and age."""
    for figure in figures:
        text = f"{_INDENT}{_INDENT}{figure.name} = {quantity(figure.value, figure.unit)}"
        text += {"cores": " of a core", "count": " count", "s": " s"}.get(figure.unit, "")
        if figure.validity:
            text += f" · {figure.validity} · age {seconds(figure.age_seconds)}"
            if figure.stale_seconds:
                text += f" · last valid {seconds(figure.stale_seconds)} before"
        yield text


HOT = "hot"
MOVES = "moves"
QUESTIONS = (HOT, MOVES)

_DESCRIPTIONS = {
    HOT: """\
List hot hosts, the worst first, with reasons. A host is hot if the rule of [decisions] or --rule finds it
overloaded; by default if its guests wait for CPU time while it is busy, or memory or network is exhausted.
Suspect: beyond a limit, not confirmed yet. Saturated: busy, and nobody waits.

A rule abstains, with the reason, if an input is missing, late or too old or its window is not full:
a silent host is neither hot nor idle. Every measured figure is shown with its validity and
age. Hysteresis starts fresh with each call, and is kept with --watch.""",
    MOVES: """\
Propose moves of VMs from hot hosts, and from hosts in maintenance, to other hosts, with reasons.

A destination has room with headroom left, is current, not hot, and would not become hot. Labels
(cordoned, maintenance, pinned, groups, affinity), VMs that are migrating, young or recently moved, and
the limit of moves per host are honoured; VMs not moved are listed with the reason. Nothing is
executed: a scheduler carries out moves and reports them to the query service.""",
}
_EXAMPLES = {
    HOT: """
shardpulse query hot                                 hosts overloaded now
shardpulse query hot --all --rule sandpiper          a different rule, and all other hosts too
shardpulse query hot --parameter high=0.9 k=5        a different threshold
shardpulse query hot --explain node7                 each part of the verdict on one host
shardpulse query hot --watch --json                  one document per second
""",
    MOVES: """
shardpulse query moves                               proposed moves, with reasons
shardpulse query moves --json | jq '.moves[] | [.vm.name, .source.host, .destination.host]'
shardpulse query moves --selection most_cpu --placement least_loaded
""",
}


def main(argv: list[str]) -> int:
    """Run ``hot`` or ``moves``, the first word of ``argv``; returns the exit code."""
    question, options = argv[0], _parser(argv[0]).parse_args(argv[1:])
    settings = load_checked(options.config)
    chosen = _chosen(settings.decisions, options)
    method = method_of(chosen, name=config.find(options.config) or "configuration")
    with reader(settings, options) as opened:
        asked = _Asked(question, opened, TickJudge(chosen, method), options)
        return repeat(lambda: _answer(asked, sys.stdout), options, f"query {question}")


class _Asked:
    """One query, run once or repeatedly with hysteresis between results."""

    def __init__(self, question: str, reader: SnapshotReader, judge: TickJudge, options: argparse.Namespace) -> None:
        self.question = question
        self.options = options
        self.every = question == HOT and (options.all or options.explain)
        self.explained = Hosts(Selection.of([options.explain])) if question == HOT and options.explain else None
        self._reader = reader
        self._judge = judge

    def decide(self) -> Decided:
        """Read and decide. Raises TemporaryError if there is no host, unless a document reports it."""
        if self.question == HOT:
            decided = self._judge.newest(self._reader)
        else:
            decided = self._judge.judge(self._reader, self._reader.coherent()).decided
        warn(decided, self.options.json)
        return decided


def _answer(asked: _Asked, out: TextIO) -> int:
    decided = asked.decide()
    outcomes = tuple(Outcome) if asked.every else LISTED
    if asked.options.json:
        document = (
            hot_document(decided, outcomes, hosts=asked.explained) if asked.question == HOT else moves_document(decided)
        )
        out.write(encode(document).decode() + "\n")
    else:
        lines = hot_lines(decided, outcomes) if asked.question == HOT else move_lines(decided)
        if asked.explained is not None:
            lines = explained_lines(decided, asked.explained)
        out.writelines(f"{printable(line)}\n" for line in lines)
    out.flush()
    return exit_code(decided)


def _chosen(settings: Decisions, options: argparse.Namespace) -> Decisions:
    """The configuration with overrides from the command line. Raises UsageError."""
    rule = options.rule or settings.rule
    given = dict(settings.parameters.get(rule, {}))
    if options.parameter and rule not in overload_detection.rules():
        raise UsageError(f"unknown rule {rule!r}; expected one of {', '.join(overload_detection.rules())}")
    for text in options.parameter:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--parameter {text}: expected NAME=VALUE, such as high=0.9")
        given[key] = _value(value)
    changes: dict[str, Any] = {"rule": rule, "parameters": {**settings.parameters, rule: given}}
    for name in ("selection", "placement"):
        if getattr(options, name, ""):
            changes[name] = getattr(options, name)
    return replace(settings, **changes)


def _value(text: str) -> str | bool | int | float | list[str]:
    """A value as in TOML, without quotes: ``a,b`` is a list."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.split(",") if "," in text else text


def _parser(question: str) -> argparse.ArgumentParser:
    notes = f"\n\nrules and their parameters:\n{catalogue.help_text()}\n"
    parser = help_text.parser(f"query {question}", _DESCRIPTIONS[question], _EXAMPLES[question], notes)
    parser.add_argument("--rule", metavar="NAME", help="rule to use instead of the configured one; see below")
    parser.add_argument(
        "--parameter", action="extend", nargs="+", default=[], metavar="NAME=VALUE", help="parameter of the rule"
    )
    if question == MOVES:
        parser.add_argument(
            "--selection", metavar="NAME", help=f"strategy to choose the VM: {', '.join(vm_selection.selections())}"
        )
        parser.add_argument(
            "--placement", metavar="NAME", help=f"strategy to choose the host: {', '.join(vm_placement.placements())}"
        )
    else:
        parser.add_argument("--all", action="store_true", help="list hosts that are not_hot too")
        parser.add_argument("--explain", metavar="HOST", help="all that is known of the verdict on one host")
    add_common(parser)
    return parser
