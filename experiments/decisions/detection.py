"""A run in which nobody acts: who is called hot, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.decisions.load import Bools, Load, measured, per_host
from experiments.decisions.monitor import Monitor
from experiments.decisions.rules import RULES, drifts_of, window_of
from experiments.decisions.series import Series
from experiments.decisions.watch import Watch


def observe(load: Load) -> Series:
    """What the sensors of the hosts show while every VM stays where it is."""
    used = measured(per_host(load.demand, load.home, load.hosts))
    used = np.where(np.isnan(load.wrong), used, load.wrong)
    level = per_host(load.level, load.home, load.hosts)
    return Series(load.name, used, load.valid, level, load.before)


def detect(series: Series, watch: Watch, rule: str, settings: Sequence[Any]) -> list[Bools]:
    """The alarms (T, H) of a rule in each of its settings, from one pass over the series.

    While a rule abstains its last verdict stands; between two samples as well.
    """
    monitor = Monitor(watch, series.hosts, max(map(window_of, settings)), drifts_of(list(settings)))
    monitor.warm(series.before)
    judge = RULES[rule]
    hot = [np.zeros(series.hosts, np.bool_) for _ in settings]
    found = [np.zeros(series.used.shape, np.bool_) for _ in settings]
    for tick in range(series.ticks):
        if monitor.tick(series.used[tick], series.valid[tick]):
            for index, parameters in enumerate(settings):
                verdicts = judge(monitor, parameters, hot[index])
                hot[index] = np.where(verdicts.abstained, hot[index], verdicts.hot)
        for index, each in enumerate(hot):
            found[index][tick] = each
    return found
