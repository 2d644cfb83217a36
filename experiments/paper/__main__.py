"""Paper figures for its prototype and for shardpulse, with a report."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acquisition.errors import CannotCreateError, UsageError
from experiments.harness import machine, outcome
from experiments.paper import report, run
from experiments.paper.figure import Extent, Figure
from experiments.paper.figures import FIGURES
from experiments.paper.report import Shown
from experiments.paper.sampler import SAMPLER
from experiments.processes import needs
from experiments.processes.program import program

_SECONDS, _QUICK_SECONDS = 60.0, 6.0

_DESCRIPTION = """\
Repeat the experiments of Andreolini, Colajanni and Lancellotti (CloudCP 2011) on this machine, each for the paper's
own prototype (baseline: a Python process per probe, MariaDB with MEMORY tables) and for shardpulse. DIR gets raw
data (figN.csv), plots (figN.png, figN.svg), report.json and report.html, which needs no other file.
A run that was interrupted goes on where it was when it is started again with the same options at the same commit."""

_EXAMPLES = """\
examples:
  python -m experiments.paper --out /tmp/paper --quick
  python -m experiments.paper --out /tmp/paper                            at most two hours on two cores
  python -m experiments.paper --out /tmp/paper --only fig6,fig7 --seconds-per-point 4000     as long as the paper"""


@program("paper")
def main(argv: list[str]) -> int:
    """Measure missing points, draw, write the report; 0 if every point was measured and every goal met."""
    given, figures, extent = parse(argv)
    if given.list:
        print("\n".join(f"{figure.name:<12} {figure.title}" for figure in FIGURES))
        return 0
    needs.require(needs.plots, *dict.fromkeys(need for figure in figures for need in figure.needs))
    directory = Path(given.out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        measured = run.measure(run.points_of(figures, extent), extent, run.kept_in(directory, extent))
        shown = [_show(figure, measured, extent, directory) for figure in figures]
        document = summary(argv, shown, measured.failures, extent)
        (directory / "report.json").write_text(json.dumps(document, indent=1) + "\n")
        (directory / "report.html").write_text(report.page(document, shown))
    except OSError as error:
        raise CannotCreateError(f"{directory}: {error}") from error
    return outcome.conclude(document, given, text)


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[Figure], Extent]:
    """The options, the figures in their order, and the extent. Raises UsageError."""
    parser = outcome.parser("paper", _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("--out", metavar="DIR", help="where everything is written; made where it is missing")
    add("--quick", action="store_true", help="fewer points of 6 s: at most a quarter of an hour on two cores")
    add("--only", default="", metavar="FIGURE,...", help="which figures (default: all)")
    add("--seconds-per-point", type=float, metavar="S", help="window of each point (default 60; the paper: 4,000)")
    add("--list", action="store_true", help="print the figures")
    given = parser.parse_args(argv)
    known = {figure.name: figure for figure in FIGURES}
    names = [name for name in given.only.split(",") if name] or list(known)
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--only: no figure {unknown[0]!r}: there are {', '.join(known)}")
    if given.out is None and not given.list:
        raise UsageError("--out DIR is missing: where to write raw data, plots and the report")
    seconds = given.seconds_per_point or (_QUICK_SECONDS if given.quick else _SECONDS)
    if seconds < 1:
        raise UsageError("--seconds-per-point must be at least 1")
    return given, [figure for name, figure in known.items() if name in names], Extent(seconds, given.quick)


def _show(figure: Figure, measured: run.Measured, extent: Extent, directory: Path) -> Shown:
    records = measured.of(figure.points(extent))
    run.write(directory / f"{figure.name}.csv", {figure.name: records.all})
    svg = report.plot(figure, records, directory)
    return Shown(figure, figure.findings(records), figure.says(records), svg, records.of(role=SAMPLER).values)


def summary(argv: list[str], shown: Sequence[Shown], failures: list[str], extent: Extent) -> dict[str, Any]:
    """Document of a run: every figure with its findings, and the missed goals."""
    findings = [finding for each in shown for finding in each.findings]
    missed = [
        f"{finding.what}: {finding.shardpulse}, the goal is {finding.goal}"
        for finding in findings
        if finding.met is False
    ]
    figures = {each.figure.name: [finding._asdict() for finding in each.findings] for each in shown}
    known = {"seconds_per_point": extent.seconds, "quick": extent.quick, "versions": _versions(), "figures": figures}
    return outcome.document("paper", argv, failures, known, [] if extent.quick else missed)


def _versions() -> dict[str, str]:
    """Versions of software used only by this program; empty if it is missing."""
    programs = ("mariadbd", "vmstat", "fio")
    return {name: _said([path, "--version"]) if (path := needs.found(name)) else "" for name in programs} | {
        name: machine.package(name) for name in ("PyMySQL", "simpy", "matplotlib")
    }


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def text(document: dict[str, Any]) -> list[str]:
    """The document as text."""
    lines = []
    for name, findings in document["figures"].items():
        lines += [
            f"{name:<12} {each['what']}: paper {each['paper']}, baseline {each['baseline']}, "
            f"shardpulse {each['shardpulse']}"
            for each in findings
        ]
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
