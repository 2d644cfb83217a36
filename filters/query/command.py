"""``shardpulse query``: read a snapshot of the smoothed state, as a table or JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console

from acquisition import help_text
from acquisition.config.metric_registry import load_checked
from acquisition.help_text import repeat
from acquisition.snapshot import Snapshot
from acquisition.snapshot.verdict import exit_code, warn
from acquisition.terminal import say, styled
from filters.query import decisions_command as decisions
from filters.query import place_command as place
from filters.query import vms_command as vms
from filters.query.decisions_command import add_common, reader
from filters.query.output import document, lines, tables
from filters.query.request import Request, sections

_DESCRIPTION = """\
Print the smoothed state of all hosts, each value with its age and validity.

Without --latest the output is coherent: one tick for all rows of an interval, the newest whose
grace time is over. A host without that tick is shown as late, down or unknown, with the reason
and without values: an older value never replaces a missing one. With --latest each row shows
its own newest tick. `stale` is the time since the last valid value.

Patterns may contain * and ?; several may be given, separated by blanks or commas (write a comma
within a name as ?). Hosts and entities may be given by id, entities also by pid or uuid. In a
pipe every line is self-contained and numbers are in base units. In a terminal only a few metrics
and the busiest entities are shown; --metric '*' and --top 0 show all."""

_EXAMPLES = """
shardpulse query                                     all rows, newest coherent tick
shardpulse query --set host --metric 'cpu_*'         CPU use of each host
shardpulse query --set processes --metric cpu_ratio --top 5
shardpulse query --entity 'qemu*' --latest           newest tick of each row
shardpulse query --json | jq '.rows[] | select(.state != "current")'
shardpulse query --set host --watch                  refresh every second
shardpulse query hot                                 overloaded hosts, with reasons
shardpulse query moves                               VMs to move, with destinations
shardpulse query place --vcpus 4 --memory 8GiB       hosts for a new VM
shardpulse query vms                                 all VMs with owner ids, use and suffering
shardpulse query neighbours host-7                   noisy and suffering VMs of a host
"""
_TOP_IN_TERMINAL = 10


def main(argv: list[str]) -> int:
    """Run the command; returns its exit code."""
    if argv and argv[0] in decisions.QUESTIONS:
        return decisions.main(argv)
    if argv and argv[0] == place.PLACE:
        return place.main(argv)
    if argv and argv[0] in vms.QUESTIONS:
        return vms.main(argv)
    options = _parser().parse_args(argv)
    settings = load_checked(options.config)
    with reader(settings, options) as opened:
        read = opened.latest if options.latest else opened.coherent
        return repeat(lambda: answer(read(), options, sys.stdout), options, "query")


def answer(snapshot: Snapshot, options: argparse.Namespace, out: TextIO) -> int:
    """Write one snapshot. Raises TemporaryError if there is no host, DataError if a pattern matches nothing."""
    warn(snapshot, "shardpulse query", options.json)
    if snapshot.damaged:
        say(f"shardpulse query: warning: {snapshot.damaged} damaged records")
    console = Console(file=styled(out))
    if options.watch is not None and console.is_terminal and not options.json:
        console.clear()
    top = options.top if options.top is not None else _TOP_IN_TERMINAL * (console.is_terminal and not options.json)
    brief = console.is_terminal and not options.json
    hosts, sets, entities, metrics = map(_patterns, (options.host, options.set, options.entity, options.metric))
    request = Request(hosts, sets, entities, metrics, top, brief)
    chosen = sections(snapshot, request) if snapshot.blocks else []
    if options.json:
        out.write(document(snapshot, chosen).decode() + "\n")
    elif console.is_terminal:
        console.print(tables(chosen, console.width))
    else:
        out.writelines(f"{line}\n" for line in lines(chosen))
    out.flush()
    return exit_code(snapshot)


def _patterns(given: Sequence[str]) -> list[str]:
    return [pattern for one in given for pattern in one.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("query", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--latest", action="store_true", help="the newest tick of each row, instead of one for all")
    for name, what in (
        ("host", "hosts by name or id"),
        ("set", "resource sets: host, processes, vms …"),
        ("entity", "entities by name, pid, uuid or id"),
        ("metric", "metrics by name"),
    ):
        parser.add_argument(f"--{name}", action="extend", nargs="+", default=[], metavar="PATTERN", help=what)
    parser.add_argument(
        "--top", type=help_text.count, metavar="N",
        help="show the N entities of each host and set with the highest mean of cpu_ratio, or else of the "
            f"first metric; 0: all (default: {_TOP_IN_TERMINAL} in a terminal, all in a pipe)",
    )  # fmt: skip
    add_common(parser)
    return parser
