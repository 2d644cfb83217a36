"""Scale table, row by row, from runs of ``experiments.ingest``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from acquisition.errors import UsageError
from experiments.harness import outcome
from experiments.processes.program import program
from experiments.scale import frames, limit, million
from experiments.scale.runs import Extent, Row, Target

#: name -> its measurement; the long ones last
ROWS: dict[str, Callable[[Extent], Row]] = {
    "small": frames.small,
    "filter": frames.filter_core,
    "filter-full": frames.filter_core_full,
    "filter-off": frames.filter_core_off,
    "writers": frames.writers,
    "limit": limit.row,
    "million": million.one,
    "million-whole": million.one_whole,
    "million-full": million.one_full,
    "two-million": million.two,
    "two-million-dense": million.two_dense,
}

_DESCRIPTION = """\
Measure how the pipeline scales, each row as medians of repeated runs of experiments.ingest on fresh shards:
  small         frames/s of host-only probes, 1 x 15, in the closed loop
  filter        frames/s of 100 x 15 per core of the filter, by its CPU time; filter-full and filter-off the same
                with every decision input kept for VMs too, and with none
  writers       samples/s with the product's writer in every host to those of lean hosts, in turn
  limit         CPU of a shard per frame, end to end, to that of a bare XADD of the same size
  million       10,000 hosts x 101 x 15 at 1 Hz: 15.15 million samples/s
  million-whole the same with the product's writer and outbox in every emulated host
  million-full  the same with every decision input kept for VMs too
  two-million   20,000 hosts: 30.3 million samples/s
  two-million-dense   10,000 hosts x 202 x 15: the same
Every run verifies itself as experiments.ingest does: nothing lost, nothing twice, values as the scalar
model has them."""

_EXAMPLES = """\
examples:
  python -m experiments.scale --json --save scale               everything: about half an hour on a quiet machine
  python -m experiments.scale --rows limit,filter --repeats 5
  python -m experiments.scale --quick                            a few small runs that show that it works"""


@program("scale")
def main(argv: list[str]) -> int:
    """Measure, print, save; 0 if the targets are met."""
    given, names, extent = parse(argv)
    rows = {name: ROWS[name](extent) for name in names}
    return outcome.conclude(summary(argv, rows, extent), given, text)


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[str], Extent]:
    """The options, the rows in their order, and the extent. Raises UsageError."""
    parser = outcome.parser("scale", _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("--rows", default=",".join(ROWS), metavar="NAME,...", help="which rows (default: all)")
    add("--seconds", type=float, metavar="S", help="window of every run (default: 15, of the million rows 300)")
    add("--repeats", type=int, default=3, metavar="N", help="runs per point; medians count (default 3)")
    add("--quick", action="store_true", help="small loads, 3 s, once: figures without meaning")
    given = parser.parse_args(argv)
    names = [name for name in given.rows.split(",") if name]
    unknown = [name for name in names if name not in ROWS]
    if unknown or not names:
        raise UsageError(f"--rows {given.rows!r}: there are {', '.join(ROWS)}")
    if given.repeats < 1 or (given.seconds is not None and given.seconds <= 0):
        raise UsageError("--repeats and --seconds must be positive")
    if given.quick:
        seconds = given.seconds or 3.0
        return given, names, Extent(seconds, seconds, 1, True)
    return given, names, Extent(given.seconds or 15.0, given.seconds or 300.0, given.repeats, False)


def summary(argv: list[str], rows: dict[str, Row], extent: Extent) -> dict[str, Any]:
    """Document: targets of all rows, whether they are met, and every row's figures."""
    targets = [target for row in rows.values() for target in row.targets]
    failures = [failure for row in rows.values() for failure in row.failures]
    missed = [] if extent.quick else [_missed(target) for target in targets if not target.met()]
    figures = {
        "seconds": extent.seconds,
        "repeats": extent.repeats,
        "quick": extent.quick,
        "targets": [target._asdict() | {"met": target.met()} for target in targets],
        "rows": {name: row.figures for name, row in rows.items()},
    }
    return outcome.document("scale", argv, failures, figures, missed)


def _missed(target: Target) -> str:
    return f"{target.what}: {target.measured:g} is not {'at least' if target.at_least else 'at most'} {target.bound:g}"


def text(document: dict[str, Any]) -> list[str]:
    """The document as text."""
    lines = []
    for target in document["targets"]:
        sign = ">=" if target["at_least"] else "<="
        verdict = "" if document["quick"] else "met" if target["met"] else "NOT MET"
        lines.append(f"{target['what']:66} {target['measured']:>12,.6g}  {sign} {target['bound']:,g}  {verdict}")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
