"""``shardpulse query hot`` and ``shardpulse query moves``: what a scheduler asks, with reasons."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any, TextIO

from acquisition import help_text
from acquisition.config import loader as config
from acquisition.config.decisions import Decisions
from acquisition.config.metric_registry import load_checked
from acquisition.errors import EXIT_OK, EXIT_TEMPORARY, EXIT_UNAVAILABLE, TemporaryError, UsageError
from acquisition.repetition import repeat
from acquisition.snapshot import SnapshotReader
from acquisition.stderr import say
from filters.decisions import catalogue, overload_detection, vm_placement, vm_selection
from filters.decisions.deciding import Decided
from filters.decisions.method import method_of
from filters.decisions.picture import Picture
from filters.decisions.verdict import Outcome
from filters.documents.encoding import encode
from filters.documents.verdicts import LISTED, hot_document, moves_document
from filters.judging.judge import TickJudge
from filters.query.explanation import hot_lines, move_lines
from filters.query.options import add_common, reader
from filters.text.quantities import printable

HOT = "hot"
MOVES = "moves"
QUESTIONS = (HOT, MOVES)

_DESCRIPTIONS = {
    HOT: """\
Which hosts are hot, the worst first, and why. A host is hot when the rule of [decisions] or --rule calls it
overloaded; by default when its busy CPU (1 - idle - iowait) averages more than 0.8 and six of its last
eight samples exceed 0.9, or its last four do and hardly differ.

A rule whose input is missing, late, too old or whose window is not full abstains and says so:
a host that is not heard of is neither hot nor idle. Every figure that was measured is shown
with its validity and age. Hysteresis begins anew with each call, and is kept with --watch.""",
    MOVES: """\
Which VM to move from which hot host to which other, and why.

A destination has room with headroom left, is current, not hot, and would not become hot. Labels
(cordoned, pinned, groups, anti-affinity), VMs that are migrating, young or have just moved, and
the limit of moves per host are honoured; what is not moved is listed with the reason. Nothing is
done: a scheduler carries moves out and reports them back to the query service.""",
}
_EXAMPLES = {
    HOT: """
shardpulse query hot                                 the hosts in trouble now
shardpulse query hot --all --rule sandpiper          another rule, and the hosts that are well
shardpulse query hot --parameter high=0.9 k=5        another threshold
shardpulse query hot --watch --json                  one document per second
""",
    MOVES: """
shardpulse query moves                               what should be moved, and why
shardpulse query moves --json | jq '.moves[] | [.vm.name, .source.host, .destination.host]'
shardpulse query moves --selection most_cpu --placement least_loaded
""",
}


def main(argv: list[str]) -> int:
    """Run ``hot`` or ``moves``, the first word of ``argv``; answers the exit code."""
    question, options = argv[0], _parser(argv[0]).parse_args(argv[1:])
    settings = load_checked(options.config)
    chosen = _chosen(settings.decisions, options)
    method = method_of(chosen, name=config.find(options.config) or "configuration")
    with reader(settings, options) as opened:
        asked = _Asked(question, opened, TickJudge(chosen, method), options)
        return repeat(lambda: _answer(asked, sys.stdout), options, f"query {question}")


class _Asked:
    """One question, asked once or again and again with hysteresis between answers."""

    def __init__(self, question: str, reader: SnapshotReader, judge: TickJudge, options: argparse.Namespace) -> None:
        self.question = question
        self.options = options
        self.every = question == HOT and options.all
        self._reader = reader
        self._judge = judge

    def decide(self) -> Decided:
        """Read and decide. Raises TemporaryError when there is nothing yet."""
        if self.question == HOT:
            decided = self._judge.newest(self._reader)
        else:
            decided = self._judge.judge(self._reader, self._reader.coherent()).decided
        _warn(decided.picture)
        if not decided.picture.hosts:
            raise TemporaryError("there are no samples yet: are `shardpulse probe` and `shardpulse filter` running?")
        return decided


def _answer(asked: _Asked, out: TextIO) -> int:
    decided = asked.decide()
    outcomes = tuple(Outcome) if asked.every else LISTED
    if asked.options.json:
        document = hot_document(decided, outcomes) if asked.question == HOT else moves_document(decided)
        out.write(encode(document).decode() + "\n")
    else:
        lines = hot_lines(decided, outcomes) if asked.question == HOT else move_lines(decided)
        out.writelines(f"{printable(line)}\n" for line in lines)
    out.flush()
    if decided.picture.errors or (decided.unplanned and not decided.blind):
        return EXIT_UNAVAILABLE
    return EXIT_TEMPORARY if decided.blind else EXIT_OK


def _warn(picture: Picture) -> None:
    for error in picture.errors:
        say(f"shardpulse query: warning: {error}")


def _chosen(settings: Decisions, options: argparse.Namespace) -> Decisions:
    """The configuration with what the command line says instead. Raises UsageError."""
    rule = options.rule or settings.rule
    given = dict(settings.parameters.get(rule, {}))
    if options.parameter and rule not in overload_detection.rules():
        raise UsageError(f"unknown rule {rule!r}; known are {', '.join(overload_detection.rules())}")
    for text in options.parameter:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--parameter {text}: NAME=VALUE is meant, such as high=0.9")
        given[key] = _value(value)
    changes: dict[str, Any] = {"rule": rule, "parameters": {**settings.parameters, rule: given}}
    for name in ("selection", "placement"):
        if getattr(options, name, ""):
            changes[name] = getattr(options, name)
    return replace(settings, **changes)


def _value(text: str) -> str | bool | int | float | list[str]:
    """A value as in TOML, without the quotes: ``a,b`` is a list."""
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
    parser.add_argument("--rule", metavar="NAME", help="a rule instead of the configured one; see below")
    parser.add_argument(
        "--parameter", action="extend", nargs="+", default=[], metavar="NAME=VALUE", help="a parameter of the rule"
    )
    if question == MOVES:
        parser.add_argument("--selection", metavar="NAME", help=f"of the VM: {', '.join(vm_selection.selections())}")
        parser.add_argument("--placement", metavar="NAME", help=f"of the host: {', '.join(vm_placement.placements())}")
    else:
        parser.add_argument("--all", action="store_true", help="hosts that are not_hot too")
    add_common(parser)
    return parser
