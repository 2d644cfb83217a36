"""Chaos run: random faults everywhere, and no sample may be lost (root)."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from acquisition.errors import EXIT_OK, CannotCreateError, UsageError
from experiments.chaos import report, schedule
from experiments.chaos.faults import KINDS
from experiments.chaos.kinds import GROUPS
from experiments.chaos.options import Options
from experiments.chaos.run import measure
from experiments.chaos.scenarios import SCENARIOS
from experiments.harness import outcome
from experiments.processes.needs import require
from experiments.processes.postgresql import WORD, installed
from experiments.processes.program import program
from experiments.testbed import missing_for_shards

_DESCRIPTION = """\
Run the whole pipeline (shards with replicas, filter workers, archivers with a PostgreSQL, and
generators, each on a host of its own in a network namespace) at 50,500 samples/s, and let things
go wrong at random: processes are killed with -9 or frozen, links cut, delayed, lossy or slow, clocks
stepped, memory filled, slots moved. At the end all faults are healed and everything is drained; then
the books must balance with nothing lost, and the smoothed state of every entity and the archive's
minutes must equal what a reference computes from the generators' own logs. The seed determines the
faults. Needs root."""

_EXAMPLES = """\
examples:
  python -m experiments.chaos --seconds 60 --seed 1
  python -m experiments.chaos --seconds 300 --seed 7 --save chaos-seed-7
  python -m experiments.chaos --seconds 300 --seed 1 --runs 10 --save chaos
      ten seeds one after the other, results in chaos-1.json to chaos-10.json
  python -m experiments.chaos --scenario blindness --seconds 240
      only the faults of that scenario, while everything that reads is asked
  python -m experiments.chaos --seconds 30 --seed 3 --only kill_master,kill_worker --keep /tmp/chaos
      only these kinds of faults; all logs are kept in that directory"""


@program("chaos")
def main(argv: list[str]) -> int:
    """Run, print, and return the exit code; the logs are kept if a check failed."""
    options, given = parse(argv)
    if given.schedule:
        _print_schedule(options)
        return EXIT_OK
    require(missing_for_shards, installed(WORD if options.archivers else ""))
    ends = [_run(argv, each, given) for each in _of_each_seed(options, given)]
    for each, end in ends if len(ends) > 1 else []:
        print(f"seed {each.seed}: {'passed' if end == EXIT_OK else 'FAILED'}", file=sys.stderr)
    return max(end for _, end in ends)


def _of_each_seed(options: Options, given: argparse.Namespace) -> list[Options]:
    """``--runs`` of the following seeds, each with its own directory for logs."""
    if given.runs == 1:
        return [options]
    seeds = range(options.seed, options.seed + given.runs)
    return [replace(options, seed=seed, keep=options.keep and f"{options.keep}-{seed}") for seed in seeds]


def _run(argv: list[str], options: Options, given: argparse.Namespace) -> tuple[Options, int]:
    """One seed: its exit code."""
    directory, kept = _directory(options), bool(options.keep)
    saved = f"{given.save}-{options.seed}" if given.save and given.runs > 1 else given.save
    try:
        ended = measure(options, directory)
        kept = kept or bool(ended.failures)
        found = report.document(argv, options, ended, str(directory) if kept else "")
        (directory / "report.json").write_text(json.dumps(found, indent=1) + "\n")
        return options, outcome.conclude(found, argparse.Namespace(**vars(given) | {"save": saved}), report.format_text)
    finally:
        if not kept:
            shutil.rmtree(directory, ignore_errors=True)


def _directory(options: Options) -> Path:
    """Directory of this run's logs. Raises CannotCreateError."""
    try:
        if not options.keep:
            return Path(tempfile.mkdtemp(prefix=f"shardpulse-chaos-{options.seed}-"))
        directory = Path(options.keep).absolute()
        directory.mkdir(parents=True)
        return directory
    except OSError as error:
        raise CannotCreateError(f"the directory for the logs cannot be made: {error}") from error


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = outcome.parser("chaos", f"{_DESCRIPTION}\n\n{_lists()}", _EXAMPLES)
    add = made.add_argument
    add("--seconds", type=float, default=60.0, metavar="N", help="how long things go wrong (default 60)")
    add("--seed", type=int, default=1, metavar="S", help="determines faults and values (default 1)")
    add("--runs", type=int, default=1, metavar="N", help="of this seed and those after it; all must pass (default 1)")
    add("--hosts", type=int, default=100, metavar="N", help="emulated hosts of 101 x 5 samples a second (default 100)")
    add("--workers", type=int, default=3, metavar="N", help="filter workers (default 3)")
    add("--generators", type=int, default=4, metavar="N", help="generator processes (default 4)")
    add("--archivers", type=int, default=2, metavar="N", help="archivers with a PostgreSQL; 0: none (default 2)")
    add("--scenario", default="", metavar="NAME", help="one of those above, which says itself what is installed")
    add("--only", default="", metavar="KIND,...", help="only these kinds of faults")
    add("--drain", type=float, default=60.0, metavar="S", help="longest wait for what is pending (default 60)")
    add("--keep", default="", metavar="DIR", help="keep all logs in this new directory, whatever the verdict")
    add("--schedule", action="store_true", help="print the faults of this seed and end")
    return made


def parse(argv: list[str]) -> tuple[Options, argparse.Namespace]:
    """Options of the run, and of the program around it. Raises UsageError."""
    given = parser().parse_args(argv)
    only = tuple(filter(None, given.only.split(",")))
    for kind in only:
        if kind not in KINDS:
            raise UsageError(f"--only: there is no fault {kind!r}; there are {', '.join(sorted(KINDS))}")
    if given.scenario and given.scenario not in SCENARIOS:
        raise UsageError(f"--scenario: there is no {given.scenario!r}; there are {', '.join(SCENARIOS)}")
    outcome.require_positive(given, "seconds", "runs", "hosts", "workers", "generators", "drain")
    given.generators = min(given.generators, given.hosts)
    options = replace(outcome.filled(Options, given), only=only, drain_seconds=given.drain)
    if options.scenario:
        options = replace(options, **SCENARIOS[options.scenario].options)
    return options, given


def _lists() -> str:
    """One line for each kind of fault, and for each scenario with its own kinds."""
    lines = ["kinds of faults:"]
    lines += [f"  {kind.name:<17} {kind.help}" for kind in KINDS.values() if kind.group in GROUPS]
    for name, scenario in SCENARIOS.items():
        lines += ["", f"scenario {name}: {scenario.help}"]
        lines += [f"  {kind.name:<18} {kind.help}" for kind in KINDS.values() if kind.group == name]
    return "\n".join(lines)


def _print_schedule(options: Options) -> None:
    for fault in schedule.make(options.seed, options.seconds, options.scene, options.only):
        print(f"{fault.at:8.1f} s  {fault.kind:18} {fault.target}  for {fault.seconds:4.1f} s  {fault.size:g}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
