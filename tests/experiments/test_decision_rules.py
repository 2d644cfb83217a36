"""The rules over all hosts at once give the verdicts of filters.decisions, host by host, tick by tick."""

import math
import random

import msgspec
import numpy as np
import pytest

from acquisition.model.inputs import DecisionInputs
from experiments.decisions import frozen
from experiments.decisions.monitor import Monitor
from experiments.decisions.rules import RULES, drifts_of, window_of
from experiments.decisions.settings import grid
from experiments.decisions.watch import RAW, Watch, named
from filters.decisions.overload_detection import REGISTRY, threshold
from filters.decisions.picture import CPU, Host, Reading
from filters.decisions.verdict import Outcome

HOSTS = 5
EMA = named("EMA 3 s")


class Scalar:
    """One host in plain Python: what a reader of the smoothed state would have."""

    def __init__(self, watch: Watch, window: int, drift: float):
        self.watch, self.window, self.drift = watch, window, drift
        self.recent, self.means, self.d, self.stale = [], [], 0.0, None
        self.validity = "MISSING"

    def sample(self, value: float, valid: bool) -> None:
        interval = self.watch.interval
        self.validity = "VALID" if valid else "RANGE"
        if not valid:
            self.stale = None if self.stale is None else self.stale + interval
            return
        if self.stale is None:
            mean = value
        else:
            before = self.means[-1]
            self.d = max(0.0, self.d + value - before - self.drift)
            alpha = 1.0 - math.exp(-(self.stale + interval) / self.watch.tau) if self.watch.tau else 1.0
            mean = before + alpha * (value - before)
        self.recent.append(value)
        self.means.append(mean)
        self.stale = 0.0

    def host(self) -> Host:
        inputs = DecisionInputs(
            self.window, min(len(self.recent), self.window), 0, 0.0, 0.0, self.d, None, None, None, None, 0.0,
            len(self.recent) < self.window,
        )  # fmt: skip
        known = bool(self.recent)
        reading = Reading(
            CPU, mean=self.means[-1] if known else None, last=self.recent[-1] if known else None,
            validity=self.validity, age_seconds=0.1, stale_seconds=self.stale, inputs=inputs,
            recent=tuple(self.recent[-120:]), recent_means=tuple(self.means[-120:]), unit="ratio",
            interval=float(self.watch.interval),
        )  # fmt: skip
        return Host("1", "h1", readings={CPU: reading})


def history(seed: int, ticks: int):
    """Levels that jump, noise, gaps, and stretches without any change."""
    chance = random.Random(seed)
    level = 0.6
    for tick in range(ticks):
        if chance.random() < 0.05:
            level = chance.choice((0.3, 0.6, 0.8, 0.9, 0.97))
        still = 60 <= tick < 80
        value = np.float32(0.9 if still else min(1.0, max(0.0, chance.gauss(level, 0.08))))
        yield float(value), chance.random() > (0.6 if 90 <= tick < 100 else 0.05)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("watch", [RAW, EMA, Watch("EMA of 10 s", 10, 20.0)])
def test_equal_to_the_pure_rule(rule, watch):
    settings = grid(watch._replace(interval=1), rule) or grid(EMA, rule)
    for seed, parameters in enumerate(random.Random(rule).sample(settings, 3)):
        monitor = Monitor(watch, HOSTS, max(1, window_of(parameters)), drifts_of([parameters]))
        scalars = [Scalar(watch, window_of(parameters), getattr(parameters, "drift", 0.0)) for _ in range(HOSTS)]
        was_hot, outcomes = np.zeros(HOSTS, bool), set()
        for samples in zip(*(history(100 * seed + host, 160) for host in range(HOSTS)), strict=True):
            monitor.sample(np.array([value for value, _ in samples]), np.array([valid for _, valid in samples]))
            found = RULES[rule](monitor, parameters, was_hot)
            for index, (scalar, (value, valid)) in enumerate(zip(scalars, samples, strict=True)):
                scalar.sample(value, valid)
                expected = REGISTRY[rule].judge(scalar.host(), parameters, bool(was_hot[index]))
                assert found.abstained[index] == (expected.outcome == Outcome.ABSTAINED), expected
                assert found.hot[index] == (expected.outcome == Outcome.HOT), expected
                outcomes.add(expected.outcome)
            was_hot = np.where(found.abstained, was_hot, found.hot)
        assert Outcome.ABSTAINED in outcomes
        assert len(outcomes) > 1


def test_the_threshold_may_be_entered_below_high():
    parameters = threshold.Parameters(high=0.9, low=0.8, k=2, n=2, enter=0.8, plateau=None)
    reading = Reading(CPU, mean=0.82, last=0.95, validity="VALID", stale_seconds=0.0, recent=(0.95, 0.95), interval=1.0)
    host = Host("1", "h1", readings={CPU: reading})
    assert threshold.judge(host, parameters).outcome == Outcome.HOT
    assert threshold.judge(host, msgspec.structs.replace(parameters, enter=None)).outcome == Outcome.NOT_HOT
    cooler = host._replace(readings={CPU: reading._replace(mean=0.8)})
    assert threshold.judge(cooler, parameters, True).outcome == Outcome.NOT_HOT
    with pytest.raises(ValueError, match="enter"):
        threshold.Parameters(high=0.9, low=0.8, enter=0.7)


def test_every_choice_is_frozen_and_is_one_of_those_that_were_tried():
    for (watch, rule), parameters in frozen.read().items():
        assert parameters in grid(named(watch), rule)
