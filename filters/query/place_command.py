"""``shardpulse query place``: hosts for a new VM, with reasons."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from typing import TextIO

from acquisition import help_text
from acquisition.config import loader as config
from acquisition.config.metric_registry import load_checked
from acquisition.help_text import repeat
from acquisition.snapshot.values.rows import Selection
from acquisition.terminal import printable
from filters.decisions.deciding import Decided
from filters.decisions.method import method_of
from filters.decisions.place import Placed, Wanted, label_of, place
from filters.documents.encoding import encode
from filters.documents.placing import places_document
from filters.documents.verdicts import Hosts
from filters.judging.judge import TickJudge
from filters.query.decisions_command import add_common, exit_code, figure_lines, head_lines, reader, warn
from filters.text.quantities import counted, quantity, seconds

PLACE = "place"
_POWERS = {"": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}
_DESCRIPTION = """\
List hosts for a new VM, the best first, with reasons, and the hosts that do not take it.

Migrations in progress and proposed moves count as done. Nobody knows what a new VM will use: it
counts as using all of its memory, and of its vCPUs what --use or [decisions.policy] new_vm_cpu
says. Its labels constrain it as those of VMs do: group, not_group, affinity, anti_affinity, and
the same with prefer_ before as a wish."""
_EXAMPLES = """
shardpulse query place --vcpus 4 --memory 8GiB
shardpulse query place --vcpus 2 --memory 4GiB --use 30 --vm-label group=gpu prefer_anti_affinity=web
shardpulse query place --vcpus 4 --memory 8GiB --json | jq -r '.places[0].host'
"""


def main(argv: list[str]) -> int:
    """Run ``place``; returns the exit code."""
    options = _parser().parse_args(argv[1:])
    settings = load_checked(options.config)
    method = method_of(settings.decisions, name=config.find(options.config) or "configuration")
    judge = TickJudge(settings.decisions, method)
    use = None if options.use is None else options.use / 100
    wanted = Wanted(options.vcpus, options.memory, dict(map(label_of, options.vm_label)), use, options.network)
    hosts = Hosts(Selection.of(host=options.host))
    with reader(settings, options) as opened:

        def answer() -> int:
            decided = judge.judge(opened, opened.coherent()).decided
            return _answer(decided, wanted, hosts, options, sys.stdout)

        return repeat(answer, options, f"query {PLACE}")


def _answer(decided: Decided, wanted: Wanted, hosts: Hosts, options: argparse.Namespace, out: TextIO) -> int:
    """Write one answer. Raises TemporaryError if there is no host, unless a document reports it."""
    warn(decided, options.json)
    if options.json:
        out.write(encode(places_document(decided, wanted, hosts, options.top or None)).decode() + "\n")
    else:
        out.writelines(f"{printable(line)}\n" for line in lines(decided, wanted, hosts, options.top or None))
    out.flush()
    return exit_code(decided)


def lines(decided: Decided, wanted: Wanted, hosts: Hosts, most: int | None = None) -> Iterator[str]:
    """Hosts with their figures, then those that refuse the VM, with reasons."""
    if decided.plan is None:
        yield from head_lines(decided, f"no host is proposed: {decided.unplanned}")
        return
    placed = place(wanted, decided.plan.state, decided.method.placement, hosts.takes)
    yield from head_lines(decided, _summary(placed, wanted, decided))
    for number, one in enumerate(placed.places[:most], 1):
        yield f"{number}. {printable(one.host.name)} (age {seconds(one.host.age_seconds)}): {printable(one.reason)}"
        yield from figure_lines(one.figures)
    for refusal in placed.refusals[:most]:
        yield f"not on: {printable(refusal.host.name)}: {printable(refusal.reason)}"


def _summary(placed: Placed, wanted: Wanted, decided: Decided) -> str:
    cores = quantity(wanted.cores(decided.method.policy), "cores")
    size = f"{counted(wanted.vcpus, 'vCPU')} expected to use {cores} of a core, {quantity(wanted.memory, 'bytes')}"
    found = f"{counted(len(placed.places), 'host')} of {len(placed.places) + len(placed.refusals)} can take it"
    return f"new VM, {size}: {found}{f'; {placed.remedy}' if placed.remedy else ''}"


def _size(text: str) -> float:
    """Bytes, such as ``8GiB``."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGT]iB)?", text)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in bytes, such as 8GiB")
    return float(found[1]) * 1024.0 ** _POWERS[found[2] or ""]


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser(f"query {PLACE}", _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("--vcpus", type=help_text.whole(1, 4096), required=True, metavar="N", help="vCPUs of the new VM")
    add("--memory", type=_size, required=True, metavar="SIZE", help="memory of the new VM, such as 8GiB")
    add("--use", type=help_text.number(1, 100, "%"), metavar="PERCENT", help="expected use of its vCPUs")
    add("--network", type=help_text.number(0, 1e12, " bytes/s"), metavar="B", help="expected bytes/s")
    add("--vm-label", action="extend", nargs="+", default=[], metavar="NAME[=VALUE]", help="labels of the VM")
    add("--host", action="extend", nargs="+", default=[], metavar="PATTERN", help="hosts to consider, by name or id")
    add("--top", type=help_text.count, default=0, metavar="N", help="length of each list; 0: all")
    add_common(parser)
    return parser
