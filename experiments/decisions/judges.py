"""Judges: rules of the registry, and detectors in use elsewhere.

A judge is started for one run and takes one second of all hosts at a time. Registered rules judge the product's own
readings; an outcome other than hot and suspect counts as not hot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from acquisition.config.decisions import Decisions
from experiments.decisions.sight import Sight
from experiments.simulation.arrays import Bools, Doubles
from experiments.simulation.filtering import id_of
from experiments.simulation.values import PRESSURE
from filters.decisions import overload_detection
from filters.decisions.deciding import judge_all
from filters.decisions.method import Method, method_of
from filters.decisions.picture import CPU
from filters.decisions.verdict import Figure, Heat, Outcome, Verdict

_SUSPECT = "suspect"
_HIGH = 0.85  #: CPU threshold of all detectors based on a mean or a quantile
_MUCH_PRESSURE = 0.5  #: fraction of time in which some task waits, for the quantile
_PLAIN = "threshold"  #: rule that defines for the planner how far to relieve a host, for CPU detectors


class Said(NamedTuple):
    """Masks (H,) of hot and suspect hosts; ``heat`` makes the verdicts for the planner."""

    hot: Bools
    suspect: Bools
    heat: Callable[[], Heat]


class Stepper(Protocol):
    """Judge at work."""

    def step(self, sight: Sight) -> Said:
        """The verdicts on all hosts after one more second; where a judge abstains, its last verdict."""
        ...


class Judge(NamedTuple):
    """``interval``: interval of its samples (0: the probe's). ``history``: whether it needs recent values. ``rule`` and
    the published ``selection`` and ``placement`` are for the planner."""

    name: str
    begin: Callable[[int], Stepper]
    interval: int = 0
    history: bool = False
    rule: str = _PLAIN
    selection: str = ""
    placement: str = ""

    def method(self, own: bool) -> Method:
        """Method of choosing moves: the product's, or the judge's ``own``."""
        given = Decisions(selection=self.selection, placement=self.placement) if own else Decisions()
        return method_of(given, self.rule)


def rule(name: str, interval: int = 0, called: str = "", selection: str = "", placement: str = "") -> Judge:
    """A judge with the registered rule of this name and its defaults. Raises KeyError."""
    found = overload_detection.rules()[name]

    def begin(hosts: int) -> Stepper:
        return _Registered(name, interval, hosts)

    return Judge(called or name, begin, interval, found.history, name, selection, placement)


class _Registered:
    """A registered rule, applied as in the product whenever a sample is complete."""

    def __init__(self, name: str, interval: int, hosts: int) -> None:
        self._rule, self._interval = overload_detection.rules()[name], interval
        nothing = np.zeros(hosts, np.bool_)
        self._heat = Heat({}, frozenset())
        self._last = Said(nothing, nothing, lambda: self._heat)

    def step(self, sight: Sight) -> Said:
        """See ``Stepper``."""
        picture = sight.fresh(self._interval)
        if picture is not None:
            self._heat = judge_all(picture, self._rule, self._rule.defaults, self._heat.hot)
            verdicts = self._heat.verdicts.values()
            hot = np.array([host in self._heat.hot for host in self._heat.verdicts])
            suspect = np.array([each.outcome.value == _SUSPECT for each in verdicts])
            self._last = Said(hot, suspect & ~hot, lambda: self._heat)
        return self._last


class _Windows:
    """Windows of ``count`` means over ``interval`` seconds of some metrics, judged whenever a mean is complete.

    Only valid samples count; without any there is no mean, and a window that lacks a mean leaves the verdict unchanged.
    """

    def __init__(
        self, hosts: int, interval: int, count: int, metrics: tuple[str, ...], excess: Callable[..., Doubles]
    ) -> None:
        self._interval, self._metrics, self._excess = interval, metrics, excess
        self._means = np.full((len(metrics), count, hosts), np.nan)
        self._sums, self._counts = (np.zeros((len(metrics), hosts)) for _ in range(2))
        self._seconds = 0
        nothing = np.zeros(hosts, np.bool_)
        self._over = np.zeros(hosts)
        self._last = Said(nothing, nothing, self._heat)

    def step(self, sight: Sight) -> Said:
        """See ``Stepper``."""
        values = np.stack([sight.values[metric] for metric in self._metrics])
        known = sight.valid & ~np.isnan(values)
        self._sums += np.where(known, values, 0.0)
        self._counts += known
        self._seconds += 1
        if self._seconds % self._interval == 0:
            self._judge()
        return self._last

    def _judge(self) -> None:
        means = np.where(self._counts > 0, self._sums / np.maximum(self._counts, 1), np.nan)
        self._means = np.concatenate((self._means[:, 1:], means[:, None]), 1)
        self._sums[...], self._counts[...] = 0.0, 0.0
        with np.errstate(invalid="ignore"):
            over = self._excess(*self._means)
        known = ~np.isnan(over)
        self._over = np.where(known, over, 0.0)
        self._last = self._last._replace(hot=np.where(known, over > 0.0, self._last.hot))

    def _heat(self) -> Heat:
        verdicts = {
            id_of(host): Verdict(
                Outcome.HOT if hot else Outcome.NOT_HOT, "", (Figure(f"{CPU} mean", _HIGH + over),), float(over)
            )
            for host, (hot, over) in enumerate(zip(self._last.hot.tolist(), self._over.tolist(), strict=True))
        }
        return Heat(verdicts, frozenset(host for host, each in verdicts.items() if each.outcome is Outcome.HOT))


def _windows(name: str, interval: int, count: int, excess: Callable[..., Doubles], *more: str) -> Judge:
    return Judge(name, lambda hosts: _Windows(hosts, interval, count, (CPU, *more), excess))


def _mean(cpu: Doubles) -> Doubles:
    return np.asarray(cpu.mean(0)) - _HIGH


def _third_of_five(cpu: Doubles) -> Doubles:
    """Three of five above the limit: the excess of the third highest."""
    return np.asarray(np.sort(cpu, axis=0)[-3]) - _HIGH


def _quantile(cpu: Doubles, pressure: Doubles) -> Doubles:
    """The 66th percentile of CPU or, if available, of pressure, as in OpenShift's descheduler profile."""
    upper = np.percentile(cpu, 66, axis=0) - _HIGH
    return np.fmax(upper, np.percentile(pressure, 66, axis=0) - _MUCH_PRESSURE)


class _Nobody:
    """Judge that calls no host hot: the result without moves."""

    def __init__(self, hosts: int) -> None:
        nothing = np.zeros(hosts, np.bool_)
        self._said = Said(nothing, nothing, lambda: Heat({}, frozenset()))

    def step(self, _sight: Sight) -> Said:
        """See ``Stepper``."""
        return self._said


NOBODY = Judge("nobody", _Nobody)
OTHERS: tuple[Judge, ...] = (
    _windows("mean of 1 min at 10 s", 10, 6, _mean),
    _windows("mean of 60 s", 60, 1, _mean),
    _windows("mean of 5 min", 300, 1, _mean),
    _windows("3 of 5 at 10 s", 10, 5, _third_of_five),
    _windows("66th percentile of 5 min", 30, 10, _quantile, PRESSURE),
    rule("sandpiper", 10, "Sandpiper at 10 s", "volume", "least_loaded"),
    rule("neat_mad", 300, "Neat at 5 min", "minimum_migration_time", "best_fit_decreasing"),
)
