"""Watching run without moves: alarms of all judges against both truths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.decisions import scores
from experiments.decisions.hosts import Hosts, guests_of
from experiments.decisions.judges import Judge
from experiments.decisions.scenarios import Scenario, Size, Step, Work, with_steps
from experiments.decisions.sight import Sight
from experiments.decisions.truth import KINDS, Truth, by_harm, by_level, onsets
from experiments.simulation.arrays import Bools, Doubles

_HOUR = 3600  #: of learning; false alarms before and after it are counted separately
_WARM_UP = 300  #: seconds in which windows fill: alarms and overloads in them do not count
_STEPPED = 4  #: for this many hosts without overloads of known onset, one more has them
_PER_SLOT = 4  #: one in this many of these at a time

Row = dict[str, object]


class Alarms(NamedTuple):
    """Masks (T, H) of a judge's hot and suspect verdicts."""

    hot: Bools
    suspect: Bools


class Watched(NamedTuple):
    """One run: alarms by name of the judge, truths by kind, and the overloads of known onset, on the hosts from
    ``quiet`` on."""

    alarms: dict[str, Alarms]
    truths: dict[str, Truth]
    steps: list[Step]
    quiet: int


def run(scenario: Scenario, judges: Sequence[Judge], seed: int, size: Size) -> Watched:
    """Watch ``size.hosts`` hosts, and additional ones with overloads of known onset. Raises Void."""
    quiet = size.hosts
    size = size._replace(cores=scenario.cores, hosts=quiet + -(-quiet // _STEPPED))
    plain = scenario.work(seed, size)
    stepped = -(-(size.hosts - quiet) // _PER_SLOT)
    risen, steps = with_steps(Work(*(each[:, quiet:] for each in plain)), seed, stepped, scenario.to)
    work = Work(np.hstack([plain.spread[:, :quiet], risen.spread]), plain.bursts)
    steps = [each._replace(host=each.host + quiet) for each in steps]
    return watch(scenario, work, judges, seed, size)._replace(steps=steps, quiet=quiet)


def watch(scenario: Scenario, work: Work, judges: Sequence[Judge], seed: int, size: Size) -> Watched:
    """Run the hosts and all judges side by side."""
    hosts = Hosts(work, guests_of(seed, size), size, scenario)
    sight = Sight(scenario, size, scenario.faults(seed, size), {(each.interval, each.history) for each in judges})
    steppers = [each.begin(size.hosts) for each in judges]
    shape = (size.seconds, size.hosts)
    found = [Alarms(np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)) for _ in judges]
    delay, ran, nothing = np.empty(shape), np.empty(shape), np.zeros(size.hosts)
    for second in range(size.seconds):
        done = hosts.second(second, nothing)
        sight.take(second, hosts, done, np.full(len(hosts.place), second))
        for stepper, each in zip(steppers, found, strict=True):
            said = stepper.step(sight)
            each.hot[second], each.suspect[second] = said.hot, said.suspect
        delay[second], ran[second] = (np.bincount(hosts.place, each, size.hosts) for each in (done.delay, done.run))
    truths = dict(
        zip(KINDS, (by_level((work.spread + work.bursts).astype(np.float64)), by_harm(delay, ran)), strict=True)
    )
    return Watched({judge.name: each for judge, each in zip(judges, found, strict=True)}, truths, [], size.hosts)


class Tally(NamedTuple):
    """Counts for one judge in one run: ``hot`` and ``suspect`` are delays of steps (``scores.delay``). By truth: false
    alarms (2, H) in the first hour (after the warm-up) and later, the fraction of later time that is falsely hot, and
    overloads, in all and without an alarm."""

    hot: list[float]
    suspect: list[float]
    false: dict[str, Doubles]
    share: dict[str, float]
    overloads: dict[str, tuple[int, int]]


def tally(run: Watched, name: str) -> Tally:
    """Count the alarms and steps of one judge."""
    alarms = run.alarms[name]
    steps = [step for step in run.steps if step.start >= _WARM_UP]
    quiet = alarms.hot[_WARM_UP:, : run.quiet]
    false, share, overloads = dict[str, Doubles](), dict[str, float](), dict[str, tuple[int, int]]()
    for kind, whole in run.truths.items():
        truth = Truth(*(each[_WARM_UP:, : run.quiet] for each in whole))
        halves = np.split(scores.rising(quiet) & ~truth.near, [_HOUR - _WARM_UP])
        false[kind] = np.stack([half.sum(axis=0) for half in halves]).astype(np.float64)
        share[kind] = float((quiet & ~truth.near)[_HOUR - _WARM_UP :].mean()) if len(halves[1]) else 0.0
        every = onsets(truth)
        overloads[kind] = len(every), sum(not quiet[each.first : each.after, each.host].any() for each in every)
    suspect = [scores.delay(step, alarms.suspect | alarms.hot) for step in steps] if alarms.suspect.any() else []
    return Tally([scores.delay(step, alarms.hot) for step in steps], suspect, false, share, overloads)


def row(scenario: Scenario, judge: str, runs: Sequence[Tally], seconds: int) -> Row:
    """Figures of one judge over runs; delays only of steps on hosts that were not hot (or suspect) before."""
    hours = [(min(seconds, _HOUR) - _WARM_UP) / 3600.0, max(0, seconds - _HOUR) / 3600.0]
    found: Row = {"scenario": scenario.name, "split": scenario.split, "judge": judge}
    delays = {
        "hot": [each for run in runs for each in run.hot],
        "suspect": [each for run in runs for each in run.suspect],
    }
    for word, every in delays.items():
        found |= {f"{word}_p{part}": scores.percentile([x for x in every if x > 0.0], part) for part in (50, 95)}
        found[f"{word}_steps"] = len(every)
        found[f"{word}_missed"], found[f"{word}_before"] = every.count(math.inf), every.count(0.0)
    for kind in KINDS:
        counts = np.hstack([run.false[kind] for run in runs])
        first, later = (scores.rate(each, hour) for each, hour in zip(counts, hours, strict=True))
        found |= {f"{kind}_false_first_hour": first, f"{kind}_false_later": later}
        found[f"{kind}_false_share"] = round(float(np.mean([run.share[kind] for run in runs])), 5)
        total, missed = (sum(run.overloads[kind][at] for run in runs) for at in (0, 1))
        found |= {f"{kind}_overloads": total, f"{kind}_overloads_missed": missed}
    return found
