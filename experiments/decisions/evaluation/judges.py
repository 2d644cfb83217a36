"""Judges of the evaluation: rules of the registry, and detectors that are in use elsewhere.

A judge is begun for a number of hosts and then takes one second of all of them at a time. ``rule`` makes one of any
rule of the registry; ``HostJudge`` is the interface for learned state: ``(host, was_hot, learned)`` in, ``(verdict,
learned)`` out, once per host and tick, both values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from experiments.decisions.evaluation.filtering import Filtered, Kept, Sample, reading
from experiments.decisions.load import Bools
from experiments.decisions.monitor import Doubles, Monitor
from experiments.decisions.rules import RULES, Verdicts, drifts_of, window_of
from experiments.decisions.watch import Watch
from filters.decisions import overload_detection
from filters.decisions.overload_detection.rule import Rule
from filters.decisions.picture import CPU, Host
from filters.decisions.verdict import ABSTAINED, HOT, Verdict

PRESSURE, SUFFERING, RUNNABLE = "pressure_cpu_some_ratio", "vms_suffering_ratio", "tasks_runnable"
HostJudge = Callable[[Host, bool, Any], tuple[Verdict, Any]]


class Stepper(Protocol):
    """Judge at work."""

    def step(self, sample: Sample) -> Verdicts:
        """Verdicts (H,) after one more second; where a judge abstains ``hot`` is what it said last."""
        ...


class Judge(NamedTuple):
    """``begin(hosts, interval of the probe)``; ``selection`` and ``placement`` are its own way of choosing where one is
    published, else those of the product."""

    name: str
    begin: Callable[[int, int], Stepper]
    selection: str = ""
    placement: str = ""


def rule(name: str) -> Judge:
    """A judge by the registered rule of this name with its defaults. Raises KeyError."""
    found = overload_detection.rules()[name]

    def begin(hosts: int, interval: int) -> Stepper:
        return Arrays(found, hosts) if name in RULES and interval == 1 else each_host(found)(hosts, interval)

    return Judge(name, begin)


def each_host(found: Rule) -> Callable[[int, int], Stepper]:
    """The rule itself, host by host: the definition that ``Arrays`` is held equal to."""

    def judge(host: Host, was_hot: bool, learned: Any) -> tuple[Verdict, Any]:
        return found.judge(host, found.defaults, was_hot), learned

    return lambda hosts, interval: Singly(judge, hosts, interval, window_of(found.defaults), found.history)


class Arrays:
    """A rule over all hosts at once, at 1 Hz."""

    def __init__(self, found: Rule, hosts: int) -> None:
        self._judge, self._parameters = RULES[found.name], found.defaults
        self._seen = Filtered(hosts, 1, window_of(found.defaults))
        drifts = np.asarray(drifts_of([found.defaults]), np.float64)
        self._seen.drifts, self._seen.cusum = drifts, np.zeros((len(drifts), hosts))
        self._hot = np.zeros(hosts, np.bool_)

    def step(self, sample: Sample) -> Verdicts:
        """See ``Stepper``."""
        self._seen.tick(sample.values[CPU], sample.valid)
        found = self._judge(self._seen, self._parameters, self._hot)
        self._hot = np.where(found.abstained, self._hot, found.hot)
        return found._replace(hot=self._hot)


class Singly:
    """A function of one host, called at each sample with every metric of the host."""

    def __init__(self, judge: HostJudge, hosts: int, interval: int, window: int = 1, recent: bool = False) -> None:
        self._judge, self._recent, self._interval, self._window = judge, recent, interval, window
        self._seen: dict[str, Filtered] = {}
        self._kept = Kept(hosts, interval)
        self._learned: list[Any] = [None] * hosts
        nothing = np.zeros(hosts, np.bool_)
        self._last = Verdicts(nothing, ~nothing, np.zeros(hosts))

    def step(self, sample: Sample) -> Verdicts:
        """See ``Stepper``."""
        hosts, fresh = len(sample.valid), False
        for metric, values in sample.values.items():
            if metric not in self._seen:
                self._seen[metric] = Filtered(hosts, self._interval, self._window)
            fresh = self._seen[metric].tick(values, sample.valid)
        if fresh:
            cpu = self._seen[CPU]
            self._kept.add(cpu.last, cpu.valid)
            self._last = self._all(hosts)
        return self._last

    def _all(self, hosts: int) -> Verdicts:
        hot, abstained, excess = self._last.hot.copy(), np.zeros(hosts, np.bool_), np.zeros(hosts)
        for host in range(hosts):
            readings = {
                metric: reading(metric, seen, host, self._kept if metric == CPU else None, self._recent)
                for metric, seen in self._seen.items()
            }
            subject = Host(f"{host:016x}", f"h{host}", readings=readings, age_seconds=0.0)
            verdict, self._learned[host] = self._judge(subject, bool(hot[host]), self._learned[host])
            abstained[host] = verdict.outcome is ABSTAINED
            excess[host] = verdict.excess or 0.0
            if not abstained[host]:
                hot[host] = verdict.outcome is HOT
        return Verdicts(hot, abstained, excess)


class Means:
    """Windows of ``count`` means over ``interval`` seconds of some metrics, judged when one is complete."""

    def __init__(
        self, hosts: int, interval: int, count: int, metrics: tuple[str, ...], excess: Callable[..., Doubles]
    ) -> None:
        self._seen = {metric: Monitor(Watch("means", interval), hosts, count) for metric in metrics}
        self._excess, self._count = excess, count
        nothing = np.zeros(hosts, np.bool_)
        self._last = Verdicts(nothing, ~nothing, np.zeros(hosts))

    def step(self, sample: Sample) -> Verdicts:
        """See ``Stepper``."""
        for metric, seen in self._seen.items():
            if not seen.tick(sample.values[metric], sample.valid):
                return self._last
        enough: Bools = np.all([seen.count >= self._count for seen in self._seen.values()], axis=0)
        with np.errstate(invalid="ignore"):
            over = self._excess(*(seen.recent for seen in self._seen.values()))
        self._last = Verdicts((over > 0.0) & enough, ~enough, np.where(enough, over, 0.0))
        return self._last


def _means(name: str, interval: int, count: int, excess: Callable[..., Doubles], *more: str) -> Judge:
    return Judge(name, lambda hosts, _interval: Means(hosts, interval, count, (CPU, *more), excess))


def _mean(values: Doubles) -> Doubles:
    return values.mean(1) - _HIGH


def _k_of_n(values: Doubles) -> Doubles:
    """Three of five above the limit: by how much the third highest is."""
    return np.sort(values, axis=1)[:, -3] - _HIGH


def _quantile(cpu: Doubles, pressure: Doubles) -> Doubles:
    """The 66th percentile, as OpenShift's descheduler profile takes it, of CPU or of pressure."""
    upper = np.percentile(cpu, 66, axis=1) - _HIGH
    return np.maximum(upper, np.percentile(pressure, 66, axis=1) - _MUCH_PRESSURE)


class Elsewhere:
    """A rule of the registry at the interval of its publication."""

    def __init__(self, name: str, hosts: int, interval: int) -> None:
        self._parameters = overload_detection.rules()[name].defaults
        self._rule = RULES[name]
        self._seen = Monitor(Watch(name, interval), hosts, window_of(self._parameters))
        self._last = Verdicts(np.zeros(hosts, np.bool_), np.ones(hosts, np.bool_), np.zeros(hosts))

    def step(self, sample: Sample) -> Verdicts:
        """See ``Stepper``."""
        if self._seen.tick(sample.values[CPU], sample.valid):
            found = self._rule(self._seen, self._parameters, self._last.hot)
            self._last = found._replace(hot=np.where(found.abstained, self._last.hot, found.hot))
        return self._last


_HIGH = 0.85  #: of CPU, for all detectors that are a mean or a quantile
_MUCH_PRESSURE = 0.5  #: of the time in which some task waits, for the quantile


OTHERS: tuple[Judge, ...] = (
    _means("mean of 1 min at 10 s", 10, 6, _mean),
    _means("mean of 60 s", 60, 1, _mean),
    _means("mean of 5 min", 300, 1, _mean),
    _means("3 of 5 at 10 s", 10, 5, _k_of_n),
    _means("66th percentile of 5 min", 30, 10, _quantile, PRESSURE),
    Judge("Sandpiper", lambda hosts, _interval: Elsewhere("sandpiper", hosts, 10), "volume", "least_loaded"),
    Judge(
        "Neat", lambda hosts, _interval: Elsewhere("neat_mad", hosts, 300), "minimum_migration_time",
        "best_fit_decreasing",
    ),
)  # fmt: skip
