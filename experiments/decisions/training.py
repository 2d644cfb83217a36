"""The sweep that parameters are frozen from. It sees synthetic load of the training seeds, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.decisions import seeds
from experiments.decisions.detection import detect, observe
from experiments.decisions.monitor import Doubles
from experiments.decisions.series import Series, joined
from experiments.decisions.settings import grid
from experiments.decisions.synthetic import Size, build
from experiments.decisions.truth import Worth, judge
from experiments.decisions.watch import Watch

#: What one false alarm per host-hour of noise costs, in seconds of mean delay: so a rule that cannot be quiet is not
#: made deaf, and one in a thousand hours costs two seconds.
SECONDS_PER_FALSE_ALARM = 2000.0
#: Within which 95% of the steps of a calm load should be told, and what a second more costs: five whole
#: samples, and up to one more second because a step begins anywhere between two of them.
TARGET_SECONDS = 6.0
SECONDS_PER_LATE_SECOND = 2.0
#: What an alarm costs that is the second or a later one of the same overload.
SECONDS_PER_REPEATED_ALARM = 0.1
MISSED_SECONDS = 720.0  #: what an overload counts that was over before it was noticed: as long as it lasted

_RISES = ("step", "noisy step", "ramp")


class Choice(NamedTuple):
    """The best setting of a rule: ``seconds`` is its mean delay over steps and ramps, ``step_seconds`` the 95th
    percentile over steps of a calm load, both with those that were missed; ``repeated`` are the alarms per
    noisy step beyond the first."""

    parameters: Any
    false_alarms: int
    seconds: float
    host_hours: float
    step_seconds: float = 0.0
    repeated: float = 0.0


class Lessons(NamedTuple):
    """What is trained on: hosts of all scenarios beside each other, and which belong to which."""

    series: Series
    parts: dict[str, slice]


def lessons(size: Size) -> Lessons:
    """Noise of all training seeds, rises of the first: ``size.hosts`` each. Which VM does what is not needed here."""
    size = size._replace(vms=1)
    names = [("noise", seed) for seed in seeds.TRAINING] + [(name, seeds.TRAINING[0]) for name in _RISES]
    series = joined([observe(build(name, seed, size)) for name, seed in names])
    parts = {"noise": slice(0, len(seeds.TRAINING) * size.hosts)}
    for index, name in enumerate(_RISES, len(seeds.TRAINING)):
        parts[name] = slice(index * size.hosts, (index + 1) * size.hosts)
    return Lessons(series, parts)


def train(watch: Watch, rule: str, given: Lessons) -> Choice | None:
    """The best setting of a rule; None where it has none for this way of watching."""
    settings = grid(watch, rule)
    if not settings:
        return None
    alarms = detect(given.series, watch, rule, settings)
    choices = []
    for parameters, hot in zip(settings, alarms, strict=True):
        worth = {name: judge(hot[:, part], given.series.level[:, part]) for name, part in given.parts.items()}
        noise = worth["noise"]
        seconds = float(np.mean([delays(worth[name]).mean() for name in _RISES]))
        late = float(np.percentile(delays(worth["step"]), 95))
        noisy = worth["noisy step"]
        repeated = max(0.0, noisy.alarms / max(1, len(noisy.delays) + noisy.missed) - 1.0)
        choices.append(
            Choice(
                parameters, noise.false_alarms, round(seconds, 2), noise.host_hours, round(late, 2), round(repeated, 3)
            )
        )
    return best(choices)


def best(choices: Sequence[Choice]) -> Choice:
    """The setting of the least cost: mean delay, and what its false alarms above the allowance cost."""
    return min(choices, key=cost)


def cost(choice: Choice) -> float:
    """Seconds."""
    late = choice.step_seconds - TARGET_SECONDS
    return (
        choice.seconds
        + SECONDS_PER_FALSE_ALARM * choice.false_alarms / choice.host_hours
        + SECONDS_PER_LATE_SECOND * max(0.0, late)
        + SECONDS_PER_REPEATED_ALARM * choice.repeated
    )


def delays(worth: Worth) -> Doubles:
    """Seconds from onset to alarm of every overload; infinite where there was none."""
    found = np.concatenate([worth.delays, np.full(worth.missed, MISSED_SECONDS)])
    return found if len(found) else np.array([np.inf])
