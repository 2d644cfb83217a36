"""Which metrics of a resource set have decision inputs, and with which parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from acquisition.config.inputs import DEFAULT_COUNTED, DEFAULT_PLATEAU, DEFAULT_SLACKS, DEFAULT_THRESHOLDS
from acquisition.model.derived import DERIVED, Derived
from acquisition.model.inputs import RECENT_TICKS
from acquisition.model.metric import resource_set_id
from acquisition.wire.inputs import Floats

ANY = "*"
_MOST_COLUMNS = 128  #: of one resource set; a record holds 255
MOST_PLANS = 4096


@dataclass(frozen=True)
class Plan:
    """The columns of one resource set: first those that frames carry (``sources`` are their positions), then derived
    ones with the positions of their parts. ``thresholds`` and ``slacks`` float32 (C,), in the metrics' units."""

    names: tuple[str, ...]
    metrics: int
    window: int
    counted: int
    plateau: int
    depth: int
    sources: tuple[int, ...]
    derived: tuple[tuple[Derived, tuple[int, ...]], ...]
    thresholds: Floats
    slacks: Floats

    @property
    def columns(self) -> int:
        """How many there are."""
        return len(self.names)


@dataclass(frozen=True)
class InputsSettings:
    """``window`` is n in ticks, ``counted`` that of k of n, ``plateau`` the last valid values whose lowest and highest
    are kept (0: none), ``depth`` how many recent values stay readable.

    ``thresholds`` and ``slacks`` by SET.METRIC, where SET is a name or ``*`` and METRIC may hold ``*`` and ``?``; the
    first pattern that fits a metric counts. A metric without threshold has no inputs, one without slack has K = 0.
    """

    window: int = 30
    counted: int = DEFAULT_COUNTED
    plateau: int = DEFAULT_PLATEAU
    depth: int = RECENT_TICKS
    thresholds: Mapping[str, float] = field(default_factory=lambda: DEFAULT_THRESHOLDS)
    slacks: Mapping[str, float] = field(default_factory=lambda: DEFAULT_SLACKS)
    _plans: dict[tuple[int, tuple[str, ...]], Plan | None] = field(default_factory=dict, repr=False, compare=False)

    def plan(self, resource_set: int, metrics: tuple[str, ...]) -> Plan | None:
        """The plan of a resource set with these columns, the same object every time; None: nothing is configured."""
        key = (resource_set, metrics)
        if key not in self._plans:
            if len(self._plans) >= MOST_PLANS:  # somebody sends ever new tables; at worst windows begin anew
                self._plans.clear()
            self._plans[key] = make_plan(self, *key)
        return self._plans[key]


def make_plan(settings: InputsSettings, resource_set: int, metrics: tuple[str, ...]) -> Plan | None:
    """The plan of a resource set with these columns; None when none of its metrics is configured."""
    names: list[str] = []
    sources: list[int] = []
    for position, name in enumerate(metrics):
        threshold = _value(settings.thresholds, resource_set, name)
        if threshold is not None and name.isprintable() and len(names) < _MOST_COLUMNS:
            names.append(name)
            sources.append(position)
    derived = []
    for name, how in DERIVED.items():
        parts = all(part in metrics for part in how.parts)
        if parts and name not in metrics and _value(settings.thresholds, resource_set, name) is not None:
            names.append(name)
            derived.append((how, tuple(metrics.index(part) for part in how.parts)))
    if not names:
        return None
    return Plan(
        tuple(names),
        len(metrics),
        settings.window,
        settings.counted,
        settings.plateau,
        settings.depth,
        tuple(sources),
        tuple(derived),
        np.array([_value(settings.thresholds, resource_set, name) for name in names], np.float32),
        np.array([_value(settings.slacks, resource_set, name) or 0.0 for name in names], np.float32),
    )


def misnamed(patterns: Iterable[str], known: Mapping[str, Iterable[str]]) -> str | None:
    """The first pattern that fits no metric of ``known`` (resource set -> metrics), derived ones included."""
    for pattern in patterns:
        wanted_set, dot, wanted = pattern.partition(".")
        sets = known if wanted_set == ANY else [wanted_set]
        names = {*DERIVED, *(name for each in sets for name in known.get(each, ()))}
        if not dot or (wanted_set != ANY and wanted_set not in known) or not any(fnmatchcase(n, wanted) for n in names):
            return pattern
    return None


def _value(patterns: Mapping[str, float], resource_set: int, metric: str) -> float | None:
    for pattern, value in patterns.items():
        wanted_set, _, wanted = pattern.partition(".")
        if (wanted_set == ANY or resource_set_id(wanted_set) == resource_set) and fnmatchcase(metric, wanted):
            return value
    return None
