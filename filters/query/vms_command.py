"""``shardpulse query vms`` and ``shardpulse query neighbours HOST``.

They show VMs by their owners' ids, and noisy VMs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TextIO

from acquisition import help_text
from acquisition.config.metric_registry import load_checked
from acquisition.errors import DataError
from acquisition.help_text import repeat
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.rows import Selection
from acquisition.snapshot.verdict import exit_code, warn
from acquisition.terminal import printable
from filters.documents.chosen import Chosen, Page
from filters.documents.encoding import encode
from filters.documents.vms import FIGURES, NeighboursDocument, VmRow, VmsDocument, neighbours_document, vms_document
from filters.judging.labels import Labels
from filters.query.decisions_command import add_common, reader
from filters.text.quantities import counted, quantity

VMS, NEIGHBOURS = "vms", "neighbours"
QUESTIONS = (VMS, NEIGHBOURS)

_DESCRIPTIONS = {
    VMS: """\
List all VMs with owner ids, vCPUs, use and suffering.

Suffering is the time in which vCPUs were ready but did not run, excluding throttling by their own CPU limit: the
time taken by others on the host. Times are in percent of one core. A missing figure shows its validity code.""",
    NEIGHBOURS: """\
List the noisy and the suffering VMs of a host: by run time, and by suffering.

Suffering is the time in which vCPUs were ready but did not run, excluding throttling by their own CPU limit. Times are
in percent of one core. VMs with a missing figure come last, with its validity code.""",
}
_EXAMPLES = {
    VMS: """
shardpulse query vms                                 all VMs
shardpulse query vms --host 'rack1-*' --latest       newest tick of each VM
shardpulse query vms --json | jq '.vms[] | select(.state == "stopped")'
""",
    NEIGHBOURS: """
shardpulse query neighbours host-7                   causes of slow VMs on a host
shardpulse query neighbours host-7 --top 3 --watch   refresh every second
""",
}
_TITLES = ("VM", "OWNER'S ID", "STATE", "VCPUS", "BUSY", "RUN", "DELAY", "THROTTLED", "SUFFERING")
_LEFT = 3  #: columns of text


def main(argv: list[str]) -> int:
    """Run ``vms`` or ``neighbours``, the first word of ``argv``; returns the exit code."""
    options = _parser(argv[0]).parse_args(argv[1:])
    settings = load_checked(options.config)
    labels = Labels(settings.decisions)
    with reader(settings, options) as opened:
        read = opened.latest if options.latest else opened.coherent
        return repeat(lambda: _answer(read(), options, labels, sys.stdout), options, f"query {argv[0]}")


def _answer(snapshot: Snapshot, options: argparse.Namespace, labels: Labels, out: TextIO) -> int:
    """Write one snapshot. Raises TemporaryError if there is no host, DataError for an unknown host."""
    warn(snapshot, "shardpulse query", options.json)
    tick = max((block.tick for block in snapshot.blocks), default=0)
    document: VmsDocument | NeighboursDocument
    if "top" in options:
        document = _neighbours(snapshot, tick, options, labels)
    else:
        patterns = Selection.of(host=options.host, entity=options.entity)
        document = vms_document(snapshot, tick, Chosen(patterns), Page(), labels.of_entity)
        if not document.vms and (options.host or options.entity):
            raise DataError(f"no VM matches {' '.join((*options.host, *options.entity))!r}")
    if options.json:
        out.write(encode(document).decode() + "\n")
    else:
        out.writelines(f"{printable(line)}\n" for line in lines(document))
    out.flush()
    return exit_code(snapshot)


def _neighbours(snapshot: Snapshot, tick: int, options: argparse.Namespace, labels: Labels) -> NeighboursDocument:
    try:
        return neighbours_document(snapshot, tick, options.name, labels.of_entity, options.top or None)
    except KeyError as error:
        near = get_close_matches(options.name, {block.host for block in snapshot.blocks}, 3)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        raise DataError(f"unknown host {options.name!r}{meant}") from error


def lines(document: VmsDocument | NeighboursDocument) -> Iterator[str]:
    """The document in words and aligned columns."""
    if isinstance(document, VmsDocument):
        yield from _table(document.vms, with_host=True)
        return
    sums = [("cores", document.cores, "count"), ("suffering of all VMs", document.vms_suffering_ratio, "cores")]
    sums.append(("of the worst", document.vms_worst_suffering_ratio, "cores"))
    told = ", ".join(f"{what} {quantity(value, unit)}" for what, value, unit in sums)
    yield f"{document.host}: {document.state}{f', {document.reason}' if document.reason else ''}; {told}"
    yield from ("", f"{counted(len(document.by_run_time), 'VM')} by run time")
    yield from _table(document.by_run_time)
    yield from ("", "by suffering")
    yield from _table(document.by_suffering)


def _table(rows: Sequence[VmRow], with_host: bool = False) -> Iterator[str]:
    hosts = [["HOST", *(row.host for row in rows)]] if with_host else []
    cells = [_TITLES, *map(_cells, rows)]
    columns = [*hosts, *(list(column) for column in zip(*cells, strict=True))]
    texts = len(hosts) + _LEFT
    widths = [max(len(printable(cell)) for cell in column) for column in columns]
    for row in zip(*columns, strict=True):
        padded = [
            printable(cell).ljust(width) if place < texts else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()


def _cells(row: VmRow) -> tuple[str, ...]:
    note = " (shadow)" if row.shadow else " (migrating)" if row.migrating else ""
    figures = (_figure(row, metric, "count" if metric == FIGURES[0] else "cores") for metric in FIGURES)
    return (row.name + note, row.owner_id, row.state, *figures)


def _figure(row: VmRow, metric: str, unit: str) -> str:
    value = getattr(row, metric)
    return row.validity.get(metric, "MISSING") if value is None else quantity(value, unit)


def _parser(question: str) -> argparse.ArgumentParser:
    parser = help_text.parser(f"query {question}", _DESCRIPTIONS[question], _EXAMPLES[question])
    if question == NEIGHBOURS:
        parser.add_argument("name", metavar="HOST", help="a host by name or id")
        parser.add_argument(
            "--top", type=help_text.count, default=0, metavar="N", help="number of VMs in each list; 0: all"
        )
    else:
        for name, what in (("host", "hosts by name or id"), ("entity", "VMs by name, uuid or id")):
            parser.add_argument(f"--{name}", action="extend", nargs="+", default=[], metavar="PATTERN", help=what)
    parser.add_argument("--latest", action="store_true", help="the newest tick of each row, instead of one for all")
    add_common(parser)
    return parser
