"""Benefit of smoothing for decisions, on load of known truth."""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

from acquisition.errors import EXIT_FAILURE, EXIT_OK, UsageError
from experiments.decisions import campaign, frozen, recorder, recording, report, together, traces, training
from experiments.decisions.rules import RULES
from experiments.decisions.synthetic import Size
from experiments.decisions.watch import MORE_NOISE_SEEDS, RULE, TEST_SEEDS, TRAINING_SEEDS, WATCHES, Watch
from experiments.harness import machine, outcome
from experiments.processes import needs
from experiments.processes.program import program

_DESCRIPTION = """\
Watch load of known truth in several ways (a sample every 5 minutes, every 10 seconds, every second, and moving
averages of the latter), let each decision rule judge, and count: seconds until an overload is detected, false
alarms, migrations, flaps (a VM back within 10 minutes), seconds of overload. The load is synthetic, or real VMs'
five-minute means (--traces), or an hour that our own probe recorded (--recording).

Parameters were chosen on the training seeds and are read from frozen.json; runs use the test seeds."""

_EXAMPLES = """\
examples:
  python -m experiments.decisions
      synthetic load; prints the summary
  python -m experiments.decisions --traces DIR --recording FILE --save decisions --report
      the whole report: DIR holds days of one file per VM (or is an archive of them); writes decisions.json and
      plots to experiments/results, and the tables of docs/detection.md
  python -m experiments.decisions --record FILE --seconds 3600
      an hour of real programs as our own probe sees them (keeps the machine busy)
  python -m experiments.decisions --train
      choose the parameters again; writes frozen.json (with --rule and --watch only theirs, the others stay)

exit codes: 0 done and the targets are met, 1 a target is missed, 2 wrong options, 65 a file is not
what it should be, 66 a file cannot be read, 69 the probe failed, 73 a file cannot be written"""


@program("decisions")
def main(argv: list[str]) -> int:
    """Run what was asked for; 0 when the default rule meets its targets."""
    given = parse(argv)
    if given.save:
        needs.require(needs.plots)
    if given.record:
        return _record(given)
    if given.train:
        return _train(given)
    return _run(given, argv)


def _record(given: argparse.Namespace) -> int:
    found = recorder.record(given.record, given.seconds, given.slots, given.seed[0] if given.seed else 1)
    print(json.dumps(found.facts | recording.texture(found) | {"seconds": len(found.busy)}))
    return EXIT_OK


def _train(given: argparse.Namespace) -> int:
    watches, rules = _chosen(given)
    found = {}
    for rule in rules:
        lessons = training.lessons(_size(given), TRAINING_SEEDS + (MORE_NOISE_SEEDS if rule == RULE else ()))
        choices = together.each(partial(training.train, rule=rule, given=lessons), watches)
        for watch, choice in zip(watches, choices, strict=True):
            if choice is not None:
                found[watch, rule] = choice
                _say(f"{rule} on {watch.name}: {choice.false_alarms} false alarms, {choice.seconds} s")
    frozen.write(found, given.frozen)
    return EXIT_OK


def _run(given: argparse.Namespace, argv: list[str]) -> int:
    task = campaign.Task(
        _size(given),
        tuple(given.seed) if given.seed else TEST_SEEDS,
        [day for path in given.traces for day in traces.read_days(path)],
        recording.read(given.recording) if given.recording else None,
        *_chosen(given),
    )
    began = time.monotonic()
    found = campaign.run(task, frozen.read(given.frozen), _say)
    document = {
        **machine.provenance([_without_directory(word) for word in argv], "experiments.decisions"),
        "seconds": round(time.monotonic() - began, 1),
        "failures": report.failures(found),
        **found,
        "machine": machine.describe(),
    }
    if given.save:
        from experiments.decisions import plot

        kept = json.dumps(report.quoted(document), separators=(",", ":"))
        outcome.RESULTS.joinpath(f"{given.save}.json").write_text(f"{kept}\n")
        plot.draw(document, task, frozen.read(given.frozen), outcome.RESULTS, given.save)
    if given.report:
        report.write(document)
    print(json.dumps(document) if given.json else report.summary(document))
    return EXIT_FAILURE if document["failures"] else EXIT_OK


def _chosen(given: argparse.Namespace) -> tuple[tuple[Watch, ...], tuple[str, ...]]:
    watches = tuple(watch for watch in WATCHES if not given.watch or watch.name in given.watch)
    return watches, tuple(rule for rule in RULES if not given.rule or rule in given.rule)


def _without_directory(word: str) -> str:
    """Where files lie on this machine is nobody's business."""
    return Path(word).name if "/" in word else word


def _size(given: argparse.Namespace) -> Size:
    return Size(given.hosts, given.vms, given.ticks)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def parse(argv: list[str]) -> argparse.Namespace:
    """The options. Raises UsageError."""
    made = outcome.bare_parser("decisions", _DESCRIPTION, _EXAMPLES)
    add, size = made.add_argument, Size()
    add("--hosts", type=int, default=size.hosts, metavar="N", help="emulated hosts (default %(default)s)")
    add("--vms", type=int, default=size.vms, metavar="N", help="VMs per host (default %(default)s)")
    add("--ticks", type=int, default=size.ticks, metavar="S", help="emulated seconds of a run (default %(default)s)")
    add("--seed", type=int, action="append", default=[], metavar="N", help="in place of the test seeds; repeatable")
    add("--traces", type=Path, action="append", default=[], metavar="DIR", help="days of traces; repeatable")
    add("--recording", type=Path, metavar="FILE", help="play what --record has written as well")
    add("--watch", action="append", default=[], metavar="NAME", help="only these ways of watching; repeatable")
    add("--rule", action="append", default=[], metavar="NAME", help="only these rules; repeatable")
    add("--frozen", type=Path, default=frozen.FILE, metavar="FILE", help="the parameters (default: as committed)")
    add("--save", metavar="NAME", help="write NAME.json, what the page quotes, and plots to experiments/results")
    add("--report", action="store_true", help="write the tables of docs/detection.md")
    add("--json", action="store_true", help="print one JSON document")
    add("--train", action="store_true", help="choose parameters on the training seeds, write them to --frozen, stop")
    add("--record", type=Path, metavar="FILE", help="record real programs to FILE and stop")
    add("--seconds", type=int, default=3600, metavar="S", help="length of a recording (default %(default)s)")
    add("--slots", type=int, default=4, metavar="N", help="programs at a time in a recording (default %(default)s)")
    given = made.parse_args(argv)
    outcome.require_positive(given, "hosts", "vms", "ticks", "seconds", "slots")
    if given.ticks < 600 and not (given.record or given.train):
        raise UsageError("--ticks must be 600 or more: a run needs room for events")
    for name, known in (("watch", [watch.name for watch in WATCHES]), ("rule", list(RULES))):
        wrong = [each for each in getattr(given, name) if each not in known]
        if wrong:
            raise UsageError(f"--{name} {wrong[0]!r}: expected one of {', '.join(known)}")
    known_seeds = TRAINING_SEEDS + MORE_NOISE_SEEDS
    forbidden = [seed for seed in given.seed if seed in known_seeds and not given.record]
    if forbidden:
        raise UsageError(f"--seed {forbidden[0]} is a training seed: parameters have seen it")
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
