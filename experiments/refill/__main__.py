"""``python -m experiments.refill``: how soon an empty shard has its state again."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from experiments.harness import outcome
from experiments.harness.quantiles import medians
from experiments.processes.program import program
from experiments.refill.measure import ALLOWED, Task, run

_DESCRIPTION = """\
Kill the only shard of some hosts (kill -9, no replica, nothing on disk), start it again empty, and measure from its
first accepted write until the smoothed state of every host is what it was. The hosts' rings are
full: every host sends 600 frames again. Mean, variance and trend must equal those before the kill to
1e-4 of the metric's range, for a time constant of a twelfth of the ring."""

_EXAMPLES = """\
examples:
  python -m experiments.refill --hosts 100 --json --save refill
      100 hosts of 101 x 5 samples, medians of 3; writes refill.json to experiments/results"""


@program("refill")
def main(argv: list[str]) -> int:
    """Run, print, save; 0 when the medians are within the bounds."""
    task, given = parse(argv)
    runs = []
    for _ in range(given.repeats):
        with tempfile.TemporaryDirectory(prefix="shardpulse-refill-") as name:
            runs.append(run(task, Path(name)))
    failures = judge(task, runs, given.within)
    figures = {"repeats": len(runs), **medians(runs), "task": task._asdict(), "runs": runs}
    document = outcome.document("refill", argv, failures, figures)
    return outcome.conclude(document, given)


def judge(task: Task, runs: list[dict[str, Any]], within: float) -> list[str]:
    """What is wrong; empty: nothing."""
    figures = medians(runs)
    found = []
    if figures["refilled_seconds"] > within:
        found.append(f"it took {figures['refilled_seconds']:.1f} s, more than {within:g} s")
    for one in runs:
        found += [f"{name} differs by {size}" for name, size in one["worst_difference"].items() if not size <= ALLOWED]
        if one["hosts_equal"] != task.hosts or one["samples_shed"]:
            found.append(
                f"{one['hosts_equal']} of {task.hosts} hosts are back, {one['samples_shed']} samples were shed"
            )
    return found


def parse(argv: list[str]) -> tuple[Task, argparse.Namespace]:
    """The task and the options around it. Raises UsageError."""
    default = Task()
    made = outcome.parser(
        "refill", _DESCRIPTION, _EXAMPLES,
        hosts=default.hosts, entities=default.entities, metrics=default.metrics, repeats=3,
    )  # fmt: skip
    add = made.add_argument
    add("--ticks", type=int, default=default.ticks, metavar="N", help="seconds before the kill (default %(default)s)")
    add("--ring", type=float, default=default.ring_seconds, metavar="S", help="length of a ring (default %(default)s)")
    add("--within", type=float, default=5.0, metavar="S", help="the bound on the median (default %(default)s)")
    given = made.parse_args(argv)
    outcome.require_positive(given, "hosts", "entities", "metrics", "ticks", "ring", "within", "repeats")
    task = Task(given.hosts, given.entities, given.metrics, given.ticks, given.ring, given.ring / 12.0)
    return task, given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
