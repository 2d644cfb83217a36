"""Figures table in short form, beside the committed figures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from acquisition.errors import EXIT_FAILURE, EXIT_OK, UsageError
from experiments.figures import committed, judge, pages
from experiments.figures.kinds import Row
from experiments.figures.measure import Measured, measure
from experiments.figures.table import LONG, ROWS
from experiments.harness import machine, outcome, runs
from experiments.processes.program import program

_WORTH_AGAIN = 120.0  #: a row that took longer is not measured once more

_DESCRIPTION = """\
Run the programs of the table of figures, each in a short form, with a reference beside each figure that this machine
reaches at the same time without the product: bare XADD of the same frames, a numpy pass over the same samples, bare
vmstat and pidstat. The ratios are compared with those in experiments/results/figures.json: better, same, or worse than
1.25 times, for which a row is measured once more first. A row for which this machine lacks something is skipped and
says what. A checkout with changes is refused: its figures are nobody's."""

_EXAMPLES = """\
examples:
  python -m experiments.figures                       a quarter of an hour on two quiet cores
  python -m experiments.figures --list
  python -m experiments.figures --only saturation,probe --changed
  python -m experiments.figures --save                keep what was measured in experiments/results/figures.json
  python -m experiments.figures --full --save --only million
                                                      the long form, which documents quote where there is one
  python -m experiments.figures --write               the tables of README.md and docs from what is committed

exit codes: 0 no figure is worse, 1 one is, or a row failed, 2 wrong options or a checkout with changes"""


@program("figures")
def main(argv: list[str]) -> int:
    """Measure, compare, print; or list or write."""
    given, rows = parse(argv)
    if given.list:
        print("\n".join(listed(rows, committed.load())))
        return EXIT_OK
    if given.write:
        print("\n".join(pages.write(committed.load(), committed.stale)) or "nothing has changed")
        return EXIT_OK
    if machine.changed() and not given.changed:
        raise UsageError("the checkout has changes: commit them, or say --changed; nothing is kept then")
    lines = run(rows, given.full, given.save)
    failures = [f"{line.row}: {line.verdict} {line.shown or line.note}" for line in lines if line.wrong]
    document = outcome.document("figures", argv, failures, {"lines": [line._asdict() for line in lines]})
    if given.archive:
        runs.keep(given.archive, document)
    print(json.dumps(document) if given.json else text(lines))
    return EXIT_FAILURE if failures else EXIT_OK


def run(rows: Sequence[Row], full: bool, save: bool) -> list[judge.Line]:
    """The lines of all rows; with ``save`` figures are stored as soon as they are measured."""
    entries = committed.load()
    lines: list[judge.Line] = []
    for first in measure(rows, full):
        form = entries.get(first.row.name, {}).get(committed.FULL if full else committed.SHORT)
        before = committed.numbers(form, first.row)
        found, judged = first, judge.judge(first, before)
        if judge.worst(judged) > judge.WORSE_FROM and first.seconds < _WORTH_AGAIN:
            found, judged = _better((found, judged), next(measure([first.row], full)), before)
        if save and found.numbers:
            committed.keep(found, full)
        for line in judged:
            print(f"   {_told(line)}", file=sys.stderr, flush=True)
        lines += judged
    return lines


def _better(
    first: tuple[Measured, list[judge.Line]], again: Measured, before: Sequence[Any]
) -> tuple[Measured, list[judge.Line]]:
    second = again, judge.judge(again, before)
    return min(first, second, key=lambda each: judge.worst(each[1]))


def _told(line: judge.Line) -> str:
    compared = "" if line.ratio is None else f"{line.ratio:.4g}"
    compared += "" if line.committed is None else f" (committed {line.committed:.4g})"
    return f"{line.verdict:<13} {line.shown:<42} {compared} {line.note}".rstrip()


def text(lines: Sequence[judge.Line]) -> str:
    """The table as text."""
    rows = [f"{line.row:<16} {_told(line)}" for line in lines]
    wrong = sum(line.wrong for line in lines)
    return "\n".join([*rows, "", f"{wrong} figures are worse or missing" if wrong else "no figure is worse"])


def listed(rows: Sequence[Row], entries: committed.Entries) -> list[str]:
    """The rows, each with the state of its committed figures."""
    found = []
    for row in rows:
        state = "not measured yet"
        for each in pages.chosen(entries, [row]):
            stale = " (not measured again since)" if committed.stale(each.entry, row) else ""
            state = f"{each.entry['commit'][:7]}, {each.entry['date'][:10]}{stale}"
        found.append(f"{row.name:<16} {state}\n    {row.what}\n    experiments.{row.program} {row.arguments}")
    return found


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[Row]]:
    """The options and the rows selected by them. Raises UsageError."""
    made = outcome.bare_parser("figures", _DESCRIPTION, _EXAMPLES)
    add = made.add_argument
    add("--only", default="", metavar="NAME,...", help="these rows")
    add("--list", action="store_true", help="the rows and from when their committed figures are")
    add("--full", action="store_true", help="the long form, with the rows that have no short one")
    add("--save", action="store_true", help="keep the figures in experiments/results/figures.json")
    outcome.add_archive(made)
    add("--changed", action="store_true", help="measure a checkout that has changes")
    add("--write", action="store_true", help="write the tables of README.md and docs, and end")
    add("--json", action="store_true", help="print one JSON document")
    given = made.parse_args(argv)
    if given.save and given.changed:
        raise UsageError("--changed is not kept: leave out --save, or commit the changes")
    known = {row.name: row for row in ((*ROWS, *LONG) if given.full or given.list or given.only else ROWS)}
    names = [name for name in given.only.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"--only: there is no {unknown[0]!r}; there are {', '.join(known)}")
    return given, [row for row in known.values() if not names or row.name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
