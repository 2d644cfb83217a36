"""``python -m experiments.catch_up``: what the catching up of many hosts does to those that were never cut off."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from acquisition.errors import UsageError
from experiments.catch_up.run import Trial, run
from experiments.emulation.workload import Workload
from experiments.harness import outcome
from experiments.processes.program import program

_DESCRIPTION = """\
Cut most of the emulated hosts off for a while and heal all links at once. Measured are the freshness
of the others while everyone catches up, and how long that takes; with the product's pacing, and without
it for comparison. Nothing may be lost."""

_EXAMPLES = """\
examples:
  python -m experiments.catch_up --hosts 500 --outage 60 --json --save catch-up-500
  python -m experiments.catch_up --hosts 100 --outage 10 --only paced"""


@program("catch_up")
def main(argv: list[str]) -> int:
    """Measure and print; 0 when nothing was lost and all hosts caught up."""
    given = _parse(argv)
    runs = {name: run(_trial(given, name == "paced")) for name in given.only or ("paced", "unpaced")}
    failures = [failure for name, figures in runs.items() for failure in _failures(name, figures)]
    document = outcome.document("catch_up", argv, failures, runs)
    return outcome.conclude(document, given, lambda _: _format(runs))


def _parse(argv: list[str]) -> argparse.Namespace:
    made = outcome.parser("catch_up", _DESCRIPTION, _EXAMPLES, hosts=300, entities=101, metrics=15, shards=0, seed=1)
    add = made.add_argument
    add("--outage", type=float, default=60.0, metavar="S", help="seconds without links (default 60)")
    add("--away", type=float, default=0.8, metavar="SHARE", help="share of the hosts that is cut off (default 0.8)")
    add("--limit", type=float, default=120.0, metavar="S", help="longest catch-up that is waited for (default 120)")
    add("--only", action="append", choices=("paced", "unpaced"), help="measure one of the two")
    given = made.parse_args(argv)
    outcome.require_positive(given, "hosts", "outage", "entities", "metrics", "limit")
    if not 0.0 < given.away < 1.0 or not 0 < round(given.hosts * given.away) < given.hosts:
        raise UsageError("--away is a share between 0 and 1: some hosts are cut off, some are not")
    return given


def _trial(given: argparse.Namespace, paced: bool) -> Trial:
    workload = Workload(given.hosts, given.entities, given.metrics, 1.0, given.seed)
    return Trial(workload, given.outage, given.away, limit=given.limit, paced=paced, shards=given.shards)


def _failures(name: str, figures: dict[str, Any]) -> list[str]:
    found = []
    if figures["catch_up_seconds"] is None or not figures["drained"]:
        found.append(f"{name}: not all hosts caught up in time")
    for kind in ("lost", "duplicated"):
        if figures[f"samples_{kind}"]:
            found.append(f"{name}: {figures[f'samples_{kind}']} samples were {kind}")
    return found


def _format(runs: dict[str, dict[str, Any]]) -> list[str]:
    rows = []
    for name, figures in runs.items():
        before, during = figures["freshness_ms_before"], figures["freshness_ms_during"]
        rows.append(
            f"{name:8} caught up in {figures['catch_up_seconds']} s; freshness of the others p50/p99/max ms "
            f"{before['p50']}/{before['p99']}/{before['max']} before, "
            f"{during['p50']}/{during['p99']}/{during['max']} during; lost {figures['samples_lost']}"
        )
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
