"""Detection run without actions: hosts called hot, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.decisions.load import Bools, Floats, Load, measured, per_host
from experiments.decisions.monitor import Monitor
from experiments.decisions.rules import RULES, drifts_of, window_of
from experiments.decisions.watch import Watch


class Series(NamedTuple):
    """``used`` (T, H) as measured, ``valid`` (T, H), the sustained ``level`` (T, H), and ``before`` (B, H)."""

    name: str
    used: Floats
    valid: Bools
    level: Floats
    before: Floats

    @property
    def hosts(self) -> int:
        """How many hosts there are."""
        return int(self.used.shape[1])

    @property
    def ticks(self) -> int:
        """Length in seconds."""
        return int(self.used.shape[0])


def observe(load: Load) -> Series:
    """Series that the sensors of the hosts show while every VM stays where it is."""
    used = measured(per_host(load.demand, load.home, load.hosts))
    used = np.where(np.isnan(load.wrong), used, load.wrong)
    level = per_host(load.level, load.home, load.hosts)
    return Series(load.name, used, load.valid, level, load.before)


def joined(parts: Sequence[Series]) -> Series:
    """Several runs of one length beside each other, as if their hosts were of one data center."""
    first = parts[0]
    return Series(
        first.name,
        np.hstack([part.used for part in parts]),
        np.hstack([part.valid for part in parts]),
        np.hstack([part.level for part in parts]),
        np.hstack([part.before for part in parts]),
    )


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
