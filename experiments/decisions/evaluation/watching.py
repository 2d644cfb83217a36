"""Watching run: nobody acts; alarms of all judges on the same hosts, against both truths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.decisions.evaluation import scores
from experiments.decisions.evaluation.filtering import Sample
from experiments.decisions.evaluation.hosts import Hosts, guests_of
from experiments.decisions.evaluation.judges import Judge
from experiments.decisions.evaluation.scenarios import Scenario, Size, Work
from experiments.decisions.evaluation.scenarios.work import with_steps
from experiments.decisions.evaluation.truth import KINDS, Truth, by_harm, by_level
from experiments.decisions.load import Bools
from experiments.decisions.monitor import Doubles
from experiments.decisions.truth import rising

_HOUR = 3600  #: of learning; false alarms before and after it are counted apart
_WARM_UP = 300  #: seconds in which windows fill: alarms and overloads of this time do not count


class Watched(NamedTuple):
    """Seconds of hosts: ``values`` by metric and ``valid`` (T, H), and the truths by kind."""

    values: dict[str, Doubles]
    valid: Bools
    truths: dict[str, Truth]


def watched(scenario: Scenario, work: Work, seed: int, size: Size) -> Watched:
    """Run the hosts."""
    guests = guests_of(seed, size)
    hosts, nothing = Hosts(work, guests, size), np.zeros(size.hosts)
    columns: dict[str, list[Doubles]] = {}
    delay, run = (np.empty((size.seconds, size.hosts)) for _ in range(2))
    for second in range(size.seconds):
        done = hosts.second(second, nothing)
        for metric, values in hosts.metrics(done).items():
            columns.setdefault(metric, []).append(values.astype(np.float32))
        delay[second], run[second] = (np.bincount(hosts.place, each, size.hosts) for each in (done.delay, done.run))
    truths = dict(zip(KINDS, (by_level(work.spread + work.bursts), by_harm(delay, run)), strict=True))
    return Watched({name: np.stack(each) for name, each in columns.items()}, scenario.valid(seed, size), truths)


def alarms(judge: Judge, run: Watched, interval: int) -> Bools:
    """Where (T, H) a judge says hot."""
    seconds, hosts = run.valid.shape
    stepper, hot = judge.begin(hosts, interval), np.zeros((seconds, hosts), np.bool_)
    for second in range(seconds):
        values = {metric: each[second].astype(np.float64) for metric, each in run.values.items()}
        hot[second] = stepper.step(Sample(values, run.valid[second])).hot
    return hot


def watch(scenario: Scenario, judges: Sequence[Judge], seeds: Sequence[int], size: Size) -> list[dict[str, object]]:
    """Rows by judge and truth: false alarms without steps, delays and misses with steps. Raises Void."""
    size = size._replace(cores=scenario.cores)
    counts: dict[tuple[str, str], list[Doubles]] = {}
    found: dict[tuple[str, str], list[scores.Delays]] = {}
    for seed in seeds:
        work = scenario.work(seed, size)
        quiet = watched(scenario, work, seed, size)
        stepped = watched(scenario, with_steps(work, seed, 0.25), seed, size)
        for judge in judges:
            calm, risen = (alarms(judge, each, scenario.interval) for each in (quiet, stepped))
            for kind in KINDS:
                counts.setdefault((judge.name, kind), []).append(_halves(calm, quiet.truths[kind]))
                found.setdefault((judge.name, kind), []).append(scores.delays(risen, stepped.truths[kind], _WARM_UP))
    hours = [(min(size.seconds, _HOUR) - _WARM_UP) / 3600.0, max(0, size.seconds - _HOUR) / 3600.0]
    return [
        {"scenario": scenario.name, "split": scenario.split, "judge": key[0], "truth": key[1],
         **_false(np.hstack(counts[key]), hours), **_delays(found[key])}
        for key in counts
    ]  # fmt: skip


def _halves(hot: Bools, truth: Truth) -> Doubles:
    """False alarms (2, H) in the first hour after the warm-up, and later."""
    false = rising(hot) & ~truth.near
    return np.stack([false[_WARM_UP:_HOUR].sum(axis=0), false[_HOUR:].sum(axis=0)]).astype(np.float64)


def _false(counts: Doubles, hours: list[float]) -> dict[str, object]:
    """Per 100 host-hours."""
    first, later = (scores.rate(row, each) for row, each in zip(counts, hours, strict=True))
    return {"false_first_hour": first, "false_later": later}


def _delays(every: list[scores.Delays]) -> dict[str, object]:
    seconds = [each for one in every for each in one.seconds]
    return {
        "overloads": len(seconds) + sum(one.missed for one in every),
        "missed": sum(one.missed for one in every),
        "delay_p50": scores.percentile(seconds, 50),
        "delay_p95": scores.percentile(seconds, 95),
    }
