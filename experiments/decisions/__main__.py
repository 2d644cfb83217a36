"""Decision quality: rules beside detectors in use elsewhere, on many loads."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.config.decisions import Decisions
from acquisition.errors import UsageError
from experiments.decisions import closed, judges, report, together, watching
from experiments.decisions.judges import Judge
from experiments.decisions.scenarios import SCENARIOS, TEST, TRAINING, Scenario, Size, Void, from_file
from experiments.harness import machine, outcome
from experiments.processes import needs
from experiments.processes.program import program
from filters.decisions import overload_detection

TRAINING_SEEDS, TEST_SEEDS = tuple(range(1, 11)), tuple(range(201, 211))

_DESCRIPTION = """\
Run rules and detectors on simulated hosts whose guests wait when work exceeds the cores: the product's own filter step,
readers, rules and planner in simulated time. Print delays of steps, false alarms per 100 host-hours (first hour, and
after an hour of learning), and in a closed loop moves, needless moves, overload seconds and waiting seconds of guests,
with intervals of 95%. Every false alarm and needless move says whether its truth is by level (the work of the host is
0.9 of its cores for 10 s) or by harm (its guests wait for 5% of 10 s)."""

_EXAMPLES = """\
examples:
  python -m experiments.decisions --quick
      two minutes: five scenarios, few hosts
  python -m experiments.decisions --report
      everything (hours); writes decisions.json and plots to experiments/results, and the tables of docs/detection.md
  python -m experiments.decisions --rule threshold --only "recorded hour" --json
  python -m experiments.decisions --scenario mine.py
      mine.py holds SCENARIOS, a list of Scenario (docs/detection.md)
  python -m experiments.decisions --report --keep DIR
      the same, and again after an interruption
  SHARDPULSE_TRACES=DIR python -m experiments.decisions --only "PlanetLab at 0.6" --only "Alibaba 2018 at 0.7"
      DIR holds planetlab-*.tar.xz, machine_usage.csv; without them these rows are void"""

_QUICK = (
    "calm at 0.6", "spikes to 6 s at 0.6", "job of 5 s each 60 s at 0.7", "4 cores at 0.81", "64 cores at 0.92",
)  # fmt: skip
#: Scenarios with a target figure: their rates need many host-hours.
_AIMED_AT = (
    "calm at 0.6", *(f"spikes to {s} s at 0.6" for s in (3, 4, 5, 6)), "spikes to 3 s at 0.7", "spikes to 3 s at 0.8",
    "job of 5 s each 60 s at 0.7", "Pareto at 0.7", "AR(0.9) 0.15 at 0.7", "Alibaba 2018 at 0.85",
)  # fmt: skip


class Task(NamedTuple):
    """One run: one judge in the closed loop, or (``judge`` None) all judges side by side."""

    scenario: Scenario
    seed: int
    judge: Judge | None = None
    own: bool = False


@program("decisions")
def main(argv: list[str]) -> int:
    """Run the chosen scenarios and print tables or JSON."""
    given = _parse(argv)
    if given.save:
        needs.require(needs.plots)
    began = time.monotonic()
    chosen, compared = _chosen(given), [*map(judges.rule, given.rule), *judges.OTHERS]
    tasks = _tasks(chosen, compared, given)
    size = Size(given.hosts, given.vms, given.seconds)
    loop = Size(given.loop_hosts, given.vms, given.loop_seconds)

    key = machine.state(), given.rule, size, loop, [path.read_text() for path in given.scenario]

    def run(task: Task) -> Any:
        if task.judge is not None:
            return closed.run(task.scenario, task.judge, task.own, task.seed, loop)
        watched = watching.run(task.scenario, compared, task.seed, size)
        return {each.name: watching.tally(watched, each.name) for each in compared}

    def ran(number: int) -> Any:
        task = tasks[number]
        name = f"{task.judge.name} acts" if task.judge is not None else "watched"
        try:
            which = key, task.scenario.name, task.seed, name, task.own
            found = together.kept(given.keep, which, partial(run, task))
        except Void as reason:
            found = reason
        print(f"{number + 1}/{len(tasks)} {task.scenario.name}: {name}, seed {task.seed}", file=sys.stderr)
        return found

    found = together.each(ran, range(len(tasks)))
    figures = _figures(tasks, found, given.seconds)
    document = outcome.document("decisions", argv, [], {
        "seconds": round(time.monotonic() - began, 1), "size": size._asdict(), "loop": loop._asdict(),
        "watched": Counter(task.scenario.name for task in tasks if task.judge is None), "loops": given.loop_seeds,
        **figures,
    })  # fmt: skip
    if given.save:
        from experiments.decisions import plot

        kept = json.dumps(document, separators=(",", ":"))
        outcome.RESULTS.joinpath(f"{given.save}.json").write_text(f"{kept}\n")
        plot.draw(document, outcome.RESULTS, given.save)
        given.save = None  # written above; indented, it would have ten times the lines
    if given.report:
        report.write(document)
    return outcome.conclude(document, given, report.lines)


def _tasks(chosen: Sequence[Scenario], compared: Sequence[Judge], given: argparse.Namespace) -> list[Task]:
    seeds = TRAINING_SEEDS if given.split == TRAINING else TEST_SEEDS
    found = []
    for scenario in chosen:
        runs = given.seeds or (5 if scenario.name in _AIMED_AT else 1)
        found += [Task(scenario, seed) for seed in seeds[:runs]]
    for seed in seeds[: given.loop_seeds]:  # one run of each scenario before the next seed
        for scenario in chosen:
            for judge in (*compared, judges.NOBODY):
                found += [Task(scenario, seed, judge, own) for own in ((False, True) if judge.selection else (False,))]
    return found


def _figures(tasks: Sequence[Task], found: Sequence[Any], seconds: int) -> dict[str, Any]:
    """Rows for the runs of each scenario, and the reason a scenario has no row."""
    void = {task.scenario.name: str(each) for task, each in zip(tasks, found, strict=True) if isinstance(each, Void)}
    runs: dict[tuple[Scenario, str, bool], list[closed.Ran]] = {}
    tallies: dict[tuple[Scenario, str], list[watching.Tally]] = {}
    named: dict[str, Judge] = {}
    for task, each in zip(tasks, found, strict=True):
        if task.scenario.name in void:
            continue
        if task.judge is not None:
            named[task.judge.name] = task.judge
            runs.setdefault((task.scenario, task.judge.name, task.own), []).append(each)
        else:
            for name, tally in each.items():
                tallies.setdefault((task.scenario, name), []).append(tally)
    return {
        "void": void,
        "watching": [watching.row(scenario, name, each, seconds) for (scenario, name), each in tallies.items()],
        "closed": [closed.row(scenario, named[name], own, each) for (scenario, name, own), each in runs.items()],
    }


def _chosen(given: argparse.Namespace) -> list[Scenario]:
    known = [*SCENARIOS, *(each for path in given.scenario for each in from_file(path))]
    names = [each.name for each in known]
    unknown = [name for name in given.only if name not in names]
    if unknown:
        raise UsageError(f"--only {unknown[0]!r}: expected one of {', '.join(names)}")
    if given.only:
        return [each for each in known if each.name in given.only]
    if given.scenario:
        return known[len(SCENARIOS) :]
    return [each for each in known if (each.name in _QUICK if given.quick else each.split == given.split)]


def _parse(argv: list[str]) -> argparse.Namespace:
    size, default = Size(), Decisions().rule
    made = outcome.parser("decisions", _DESCRIPTION, _EXAMPLES, "NAME.json and plots")
    add = made.add_argument
    add("--keep", type=Path, metavar="DIR", help="keep each run here: the same command at the same commit goes on")
    add("--report", action="store_true", help="--save decisions, and write the tables of docs/detection.md")
    add("--quick", action="store_true", help="five scenarios, few hosts, one seed; other sizes as given")
    add("--split", choices=(TEST, TRAINING), default=TEST, help="generators of this split (default %(default)s)")
    add("--only", action="append", default=[], metavar="NAME", help="only these scenarios; repeatable")
    add("--scenario", type=Path, action="append", default=[], metavar="FILE", help="scenarios of a file; repeatable")
    add("--rule", action="append", default=[], metavar="NAME", help=f"registered rules (default {default})")
    add("--hosts", type=int, metavar="N", help="hosts that are watched (default 100, quick 12)")
    add("--seconds", type=int, metavar="S", help=f"simulated (default {size.seconds}, quick 5400)")
    add("--seeds", type=int, metavar="N", help="runs of each scenario, at most 10 (default: 5 where a figure is to be "
        "reached, else 1; quick 1)")  # fmt: skip
    add("--vms", type=int, default=size.vms, metavar="N", help="guests per host (default %(default)s)")
    add("--loop-seeds", type=int, metavar="N", help="runs of each loop, at most 10; 0: none (default 2, quick 1)")
    add("--loop-hosts", type=int, metavar="N", help=f"hosts of the loop (default {size.hosts}, quick 8)")
    add("--loop-seconds", type=int, metavar="S", help="simulated in the loop (default 3600, quick 2400)")
    given = made.parse_args(argv)
    quick = {"hosts": 12, "loop_hosts": 8, "seconds": 5400, "loop_seconds": 2400, "seeds": 1, "loop_seeds": 1}
    full = {"hosts": 100, "loop_hosts": size.hosts, "seconds": size.seconds, "loop_seconds": 3600, "loop_seeds": 2}
    for name, value in (quick if given.quick else full).items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    counts = ["hosts", "vms", "seconds", "loop_hosts", "loop_seconds", *(["seeds"] if given.seeds is not None else [])]
    outcome.require_positive(given, *counts)
    if given.report:
        if given.save not in (None, "decisions"):
            raise UsageError("--report goes with --save decisions: the page shows what is saved there")
        given.save = "decisions"
    if given.loop_seeds < 0:
        raise UsageError("--loop-seeds must be 0 or more")
    if min(given.seconds, given.loop_seconds) < 600:
        raise UsageError("--seconds and --loop-seconds must be 600 or more: windows need time to fill")
    given.rule = given.rule or [default]
    for name in given.rule:
        if name not in overload_detection.rules():
            raise UsageError(f"--rule {name!r}: expected one of {', '.join(overload_detection.rules())}")
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
