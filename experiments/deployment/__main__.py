"""Deployment on hosts with systemd: duration, and cost of the deployed probe.

Rows: ``pipeline`` (three bare hosts to a verified pipeline, a second run, a dry one: seconds by play and role, remote
calls of each host), ``probe`` (memory and CPU of the probe's unit over TLS, beside 100 processes, on a host that shares
no page of a file with others). What a row is to reach is in docs/benchmarks.md; a row that does not makes the program
fail. That no sample is lost while machines come and go is tested (tests/deploy/test_machines_come_and_go.py).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.errors import UsageError
from experiments.deployment import pipeline, probe, scene
from experiments.harness import outcome
from experiments.processes import needs
from experiments.processes.program import program


class Row(NamedTuple):
    """Row of the table: its measurement, the missed goals, and its text."""

    measure: Callable[[argparse.Namespace, Path], dict[str, Any]]
    missed: Callable[[Mapping[str, Any]], list[str]]
    text: Callable[[Mapping[str, Any]], list[str]]


ROWS = {
    "pipeline": Row(pipeline.measure, pipeline.missed, pipeline.text),
    "probe": Row(probe.measure, probe.missed, probe.text),
}
_EXAMPLES = """examples:
  python -m experiments.deployment --rows pipeline,probe
  python -m experiments.deployment --rows probe --warm-up 620      the ring is full then, not by computation"""


@program("deployment")
def main(argv: list[str]) -> int:
    """Measure, print, and report whether the goals are reached."""
    given = _parser().parse_args(argv)
    outcome.require_positive(given, "repeats", "seconds", "warm_up", "processes")
    rows = chosen(given.rows)
    needs.require(scene.hosts_missing, scene.ansible)
    figures, missed = {}, []
    for name in rows:
        with tempfile.TemporaryDirectory(prefix="shardpulse-deployment-") as place:
            figures[name] = ROWS[name].measure(given, Path(place))
        missed += ROWS[name].missed(figures[name])
        print("\n".join(ROWS[name].text(figures[name])), file=sys.stderr, flush=True)
    return outcome.conclude(outcome.document("deployment", argv, [], figures, missed), given, text)


def chosen(words: str) -> list[str]:
    """The rows named in a list. Raises UsageError for an unknown one."""
    names = words.split(",")
    for name in names:
        if name not in ROWS:
            raise UsageError(f"--rows {words}: there is no row {name!r}; there are {', '.join(ROWS)}")
    return names


def text(document: Mapping[str, Any]) -> list[str]:
    """All rows as text."""
    return [line for name, row in ROWS.items() if name in document for line in row.text(document[name])]


def _parser() -> argparse.ArgumentParser:
    parser = outcome.parser("deployment", __doc__ or "", _EXAMPLES, seconds=60.0, warm_up=60.0, repeats=2)
    parser.add_argument("--rows", default=",".join(ROWS), metavar="NAMES", help="which, with commas (default: all)")
    parser.add_argument("--processes", type=int, default=100, metavar="N", help="load of the row probe (default 100)")
    parser.add_argument(
        "--packages", choices=("cached", "installed"), default="cached",
        help="of Debian: the run installs them from each host's cache, filled before (the default), or they are there",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
