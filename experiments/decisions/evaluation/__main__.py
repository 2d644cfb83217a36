"""Evaluation of rules beside detectors in use elsewhere, by generators of test."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from acquisition.errors import EXIT_OK, UsageError
from experiments.decisions.evaluation import closed, judges, watching
from experiments.decisions.evaluation.scenarios import SCENARIOS, TEST, TRAINING, Scenario, Size, Void, from_file
from experiments.decisions.evaluation.scores import Interval
from experiments.decisions.watch import TEST_SEEDS, TRAINING_SEEDS
from experiments.harness import outcome
from experiments.processes.program import program
from filters.decisions import overload_detection

_DESCRIPTION = """\
Run rules and detectors on simulated hosts whose guests wait when work exceeds the cores. Print delays, false alarms
per 100 host-hours (first hour and later), and in a closed loop with the planner moves, needless moves, overload seconds
and waiting seconds of guests, with intervals of 95%. Every figure says whether its truth is by level or by harm."""

_EXAMPLES = """\
examples:
  python -m experiments.decisions.evaluation --quick
  python -m experiments.decisions.evaluation --rule threshold --scenario PlanetLab --json
  python -m experiments.decisions.evaluation --scenarios mine.py
      mine.py holds SCENARIOS, a list of Scenario (experiments/decisions/evaluation/scenarios)"""

_QUICK = ("spikes of 3 to 6 s at 0.6", "job of 5 s each 60 s at 0.7", "4 cores at 0.81", "64 cores at 0.92")


@program("evaluation")
def main(argv: list[str]) -> int:
    """Run the chosen scenarios and print a table or JSON."""
    given = _parse(argv)
    chosen = _chosen(given)
    compared = [*(judges.rule(name) for name in given.rule or ["threshold"]), *judges.OTHERS]
    size = Size(given.hosts, given.vms, given.seconds)
    seeds = TRAINING_SEEDS if given.split == TRAINING else TEST_SEEDS
    document: dict[str, Any] = {"void": [], "watching": [], "closed": []}
    for number, scenario in enumerate(chosen, 1):
        print(f"{number}/{len(chosen)} {scenario.name}", file=sys.stderr)
        try:
            document["watching"] += watching.watch(scenario, compared, seeds[: given.seeds], size)
            loop = size._replace(seconds=min(given.seconds, given.loop_seconds))
            document["closed"] += closed.compare(scenario, compared, seeds[: given.seeds], loop)
        except Void as reason:
            document["void"].append({"scenario": scenario.name, "reason": str(reason)})
    print(json.dumps(document) if given.json else "\n".join(_table(document)))
    return EXIT_OK


def _chosen(given: argparse.Namespace) -> list[Scenario]:
    known = from_file(given.scenarios) if given.scenarios else SCENARIOS
    names = given.scenario or (list(_QUICK) if given.quick and not given.scenarios else [])
    for name in names:
        if name not in {each.name for each in known}:
            raise UsageError(f"--scenario {name!r}: expected one of {', '.join(each.name for each in known)}")
    return [each for each in known if (each.name in names if names else each.split == given.split)]


def _table(document: dict[str, Any]) -> list[str]:
    lines = [f"{each['scenario']}: void, {each['reason']}" for each in document["void"]]
    for part in ("watching", "closed"):
        for row in document[part]:
            shown = [f"{key} {_text(value)}" for key, value in row.items() if key not in ("scenario", "split")]
            lines.append(f"{row['scenario']} ({row['split']}): {', '.join(shown)}")
    return lines


def _text(value: Any) -> str:
    if not isinstance(value, Interval):
        return str(value)
    return "-" if value.value is None else f"{value.value:g} [{value.low:g}, {value.high:g}]"


def _parse(argv: list[str]) -> argparse.Namespace:
    size = Size()
    made = outcome.bare_parser("decisions.evaluation", _DESCRIPTION, _EXAMPLES)
    add = made.add_argument
    add("--quick", action="store_true", help="four scenarios, few hosts, one seed")
    add("--split", choices=(TEST, TRAINING), default=TEST, help="generators of this split (default %(default)s)")
    add("--scenario", action="append", default=[], metavar="NAME", help="only these; repeatable")
    add("--scenarios", type=Path, metavar="FILE", help="scenarios of a Python file in place of the table")
    add("--rule", action="append", default=[], metavar="NAME", help="registered rules (default threshold); repeatable")
    add("--hosts", type=int, default=100, metavar="N", help="hosts (default %(default)s)")
    add("--vms", type=int, default=size.vms, metavar="N", help="guests per host (default %(default)s)")
    add("--seconds", type=int, default=size.seconds, metavar="S", help="simulated (default %(default)s)")
    add("--loop-seconds", type=int, default=3600, metavar="S", help="of the closed loop (default %(default)s)")
    add("--seeds", type=int, default=5, metavar="N", help="runs of each scenario, at most 10 (default %(default)s)")
    add("--json", action="store_true", help="print one JSON document")
    given = made.parse_args(argv)
    outcome.require_positive(given, "hosts", "vms", "seconds", "loop_seconds", "seeds")
    if min(given.seconds, given.loop_seconds) < 600:
        raise UsageError("--seconds and --loop-seconds must be 600 or more: windows need time to fill")
    for name in given.rule:
        if name not in overload_detection.rules():
            raise UsageError(f"--rule {name!r}: expected one of {', '.join(overload_detection.rules())}")
    if given.quick:
        given.hosts, given.seeds, given.loop_seconds = 10, 1, 1300
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
