"""Training sweep for the frozen parameters, on training seeds only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.decisions.detection import Series, detect, joined, observe
from experiments.decisions.load import Bools
from experiments.decisions.monitor import Doubles
from experiments.decisions.settings import grid
from experiments.decisions.synthetic import Size, build
from experiments.decisions.truth import Truth, Worth, judge_by, truth_of
from experiments.decisions.watch import TRAINING_SEEDS, Watch

#: What one false alarm per host-hour of noise costs, in seconds of mean delay: so a rule that cannot be quiet is not
#: made deaf, and one in a thousand hours costs two seconds.
SECONDS_PER_FALSE_ALARM = 2000.0
#: Within which 95% of the steps of a calm load should be told, and what a second more costs.
TARGET_SECONDS = 5.0
SECONDS_PER_LATE_SECOND = 2.0
#: What an alarm costs that is the second or a later one of the same overload.
SECONDS_PER_REPEATED_ALARM = 0.1
MISSED_SECONDS = 720.0  #: what an overload counts that was over before it was noticed: as long as it lasted

_TOGETHER = 30  #: settings that are tried in one pass: what each says at every tick lies in memory
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
    """Lessons to train on: hosts of all scenarios beside each other, which belong to which, and the truth about
    each."""

    series: Series
    parts: dict[str, slice]
    truths: dict[str, Truth]


def lessons(size: Size, noise: Sequence[int] = TRAINING_SEEDS) -> Lessons:
    """Noise of these seeds, rises of the first training seed: ``size.hosts`` each. Which VM does what is not
    needed here."""
    size = size._replace(vms=1)
    names = [("noise", seed) for seed in noise] + [(name, TRAINING_SEEDS[0]) for name in _RISES]
    series = joined([observe(build(name, seed, size)) for name, seed in names])
    parts = {"noise": slice(0, len(noise) * size.hosts)}
    for index, name in enumerate(_RISES, len(noise)):
        parts[name] = slice(index * size.hosts, (index + 1) * size.hosts)
    return Lessons(series, parts, {name: truth_of(series.level[:, part]) for name, part in parts.items()})


def train(watch: Watch, rule: str, given: Lessons) -> Choice | None:
    """The best setting of a rule; None where it has none for this way of watching."""
    settings = grid(watch, rule)
    choices: list[Choice] = []
    for first in range(0, len(settings), _TOGETHER):
        some = settings[first : first + _TOGETHER]
        alarms = detect(given.series, watch, rule, some)
        choices += [_choice(parameters, hot, given) for parameters, hot in zip(some, alarms, strict=True)]
    return best(choices) if choices else None


def _choice(parameters: Any, hot: Bools, given: Lessons) -> Choice:
    worth = {name: judge_by(hot[:, part], given.truths[name]) for name, part in given.parts.items()}
    noise, noisy = worth["noise"], worth["noisy step"]
    seconds = float(np.mean([delays(worth[name]).mean() for name in _RISES]))
    late = float(np.percentile(delays(worth["step"]), 95))
    repeated = max(0.0, noisy.alarms / max(1, len(noisy.delays) + noisy.missed) - 1.0)
    return Choice(
        parameters, noise.false_alarms, round(seconds, 2), noise.host_hours, round(late, 2), round(repeated, 3)
    )


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
