"""Campaign: all runs of a report, with frozen parameters and test seeds.

The result is one JSON document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.decisions import recording, synthetic, together, traces
from experiments.decisions.control import NOBODY, ORACLE, Method, Outcome, control
from experiments.decisions.detection import Series, detect, joined, observe
from experiments.decisions.load import Bools, Load
from experiments.decisions.noise import CALM, Noise
from experiments.decisions.rules import RULES
from experiments.decisions.synthetic import SCENARIOS, Size
from experiments.decisions.training import TARGET_SECONDS
from experiments.decisions.truth import Worth, judge, judge_by, truth_of
from experiments.decisions.watch import RAW, RULE, WATCH, WATCHES, Watch, named

CORRELATIONS = (0.0, 0.3, 0.5, 0.7, 0.9)
DETECTED = tuple(name for name in SCENARIOS if name != "mixed")
CONTROLLED = ("noise", "bursts", "mixed")

Frozen = dict[tuple[str, str], Any]
Say = Callable[[str], None]


class Task(NamedTuple):
    """Task to run. ``noise_seeds`` seeds of the noise scenario are joined, the other scenarios run the first."""

    size: Size
    seeds: tuple[int, ...]
    days: Sequence[traces.Day] = ()
    recorded: recording.Recording | None = None
    watches: tuple[Watch, ...] = WATCHES
    rules: tuple[str, ...] = tuple(RULES)


def run(task: Task, frozen: Frozen, say: Say) -> dict[str, Any]:
    """Everything, as the document that reports and plots are made from."""
    loads = list(_base_loads(task))
    document: dict[str, Any] = {
        "size": task.size._asdict(),
        "test_seeds": list(task.seeds),
        "default": {"watch": WATCH, "rule": RULE},
        "days": [day.name for day in task.days],
        "detection": detection(task, frozen, loads, say),
        "target": target(task, frozen, say),
        "correlation": correlation(task, frozen, say),
        "control": controlled(task, frozen, loads, say),
    }
    if task.recorded is not None:
        document["recording"] = task.recorded.facts | recording.texture(task.recorded)
        document["recording"]["seconds"] = len(task.recorded.busy)
    return document


def detection(task: Task, frozen: Frozen, loads: Iterable[Load], say: Say) -> list[dict[str, Any]]:
    """Rows of what each rule reports under each way of watching while nobody acts, per scenario."""
    parts = [observe(synthetic.build(name, task.seeds[0], task.size)) for name in DETECTED]
    parts += [observe(load) for load in loads]
    series, truths = joined(parts), [truth_of(part.level) for part in parts]

    def told(method: tuple[Watch, str, Any]) -> list[dict[str, Any]]:
        watch, rule, parameters = method
        say(f"detection: {rule} on {watch.name}")
        (hot,) = detect(series, watch, rule, [parameters])
        rows = []
        for index, (part, truth) in enumerate(zip(parts, truths, strict=True)):
            worth = judge_by(hot[:, index * task.size.hosts : (index + 1) * task.size.hosts], truth)
            rows.append({"load": part.name, "watch": watch.name, "rule": rule, **figures(worth)})
        return rows

    return [row for rows in together.each(told, list(_combinations(task, frozen))) for row in rows]


def figures(worth: Worth) -> dict[str, Any]:
    """The numbers of a run without actions."""
    delays = {}
    if len(worth.delays):
        p50, p95, most = np.percentile(worth.delays, [50, 95, 100])
        delays = {"p50": round(float(p50), 2), "p95": round(float(p95), 2), "max": round(float(most), 2)}
    return {
        "host_hours": round(worth.host_hours, 2),
        "overloads": len(worth.delays) + worth.missed,
        "missed": worth.missed,
        "delay_seconds": delays or None,
        "in_time": int((worth.delays <= TARGET_SECONDS).sum()),
        "false_alarms": worth.false_alarms,
        "false_alarms_per_host_hour": round(worth.false_alarms / worth.host_hours, 4),
        "alarms": worth.alarms,
    }


def target(task: Task, frozen: Frozen, say: Say) -> dict[str, Any]:
    """The default rule, and the same rule on raw values, on all test seeds of noise and steps."""
    found: dict[str, Any] = {}
    for watch in dict.fromkeys((named(WATCH), RAW)):
        say(f"target: {RULE} on {watch.name}, {len(task.seeds)} seeds")
        for name in ("noise", "step", "noisy step"):
            series = [_hosts_only(name, seed, task.size) for seed in task.seeds]
            first, every = _told(series[:1], watch, frozen), _told(series, watch, frozen)
            found[f"{watch.name}: {name}"] = {"first seed": figures(first), "all seeds": figures(every)}
    return found


def correlation(task: Task, frozen: Frozen, say: Say) -> list[dict[str, Any]]:
    """How the default fares when the noise is slower or faster than what it was trained on."""
    rows = []
    for phi in CORRELATIONS:
        say(f"correlation of the noise: {phi:g}")
        noise = Noise(correlation=phi)
        for name, kind in (("noise", noise), ("step", CALM._replace(correlation=phi)), ("noisy step", noise)):
            series = [_hosts_only(name, task.seeds[0], task.size, kind)]
            for watch in dict.fromkeys((named(WATCH), RAW)):
                rows.append({"phi": phi, "load": name, "watch": watch.name, **figures(_told(series, watch, frozen))})
    return rows


def controlled(task: Task, frozen: Frozen, loads: Sequence[Load], say: Say) -> list[dict[str, Any]]:
    """Rows of what each rule does to a data center; beside them what happens if nobody acts, or who knows all does."""
    every = [synthetic.build(name, task.seeds[0], task.size) for name in CONTROLLED] + list(loads)
    methods = [Method(RAW, NOBODY), Method(RAW, ORACLE)]
    methods += [Method(watch, rule, parameters) for watch, rule, parameters in _combinations(task, frozen)]

    def acted(load: Load) -> list[dict[str, Any]]:
        say(f"migrations under {load.name}")
        rows = []
        for method in methods:
            watch = method.watch.name if method.parameters is not None else "-"
            rows.append({"load": load.name, "watch": watch, "rule": method.rule, **outcome(control(load, method))})
        return rows

    return [row for rows in together.each(lambda place: acted(every[place]), range(len(every))) for row in rows]


def outcome(found: Outcome) -> dict[str, Any]:
    """The numbers of a run with migrations; per host-hour where the name says so."""
    hours = found.host_hours
    return {
        "migrations": found.migrations,
        "needless": found.needless,
        "flaps": found.flaps,
        "migrations_per_host_hour": round(found.migrations / hours, 3),
        "overload_seconds_per_host_hour": round(found.overload_seconds / hours, 2),
        "lost_seconds_per_host_hour": round(found.lost_seconds / hours, 3),
    }


def _base_loads(task: Task) -> Iterable[Load]:
    for day in task.days:
        yield traces.build(day, task.seeds[0], task.size)
    if task.recorded is not None:
        yield recording.build(task.recorded, task.seeds[0], task.size)


def _combinations(task: Task, frozen: Frozen) -> Iterable[tuple[Watch, str, Any]]:
    for watch in task.watches:
        for rule in task.rules:
            if (watch.name, rule) in frozen:
                yield watch, rule, frozen[watch.name, rule]


def _hosts_only(name: str, seed: int, size: Size, noise: Noise | None = None) -> Series:
    """Which VM does what is not needed where nothing moves."""
    return observe(synthetic.build(name, seed, size._replace(vms=1), noise))


def _told(series: Sequence[Series], watch: Watch, frozen: Frozen) -> Worth:
    whole = joined(series)
    hot: list[Bools] = detect(whole, watch, RULE, [frozen[watch.name, RULE]])
    return judge(hot[0], whole.level)
