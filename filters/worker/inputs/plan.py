"""Plan of decision inputs: metrics of a resource set and their parameters."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.config.inputs import (
    DEFAULT_COUNTED,
    DEFAULT_ORDER_STATISTICS,
    DEFAULT_PLATEAU,
    DEFAULT_SLACKS,
    DEFAULT_THRESHOLDS,
    DEFAULT_WINDOW,
)
from acquisition.model.derived import CPU, DERIVED, MEMORY, NETWORK, WAITING, Derived
from acquisition.model.inputs import RECENT_TICKS, Span
from acquisition.model.metric import resource_set_id
from acquisition.wire.records.inputs import (
    BURST_FIGURES,
    HEADER,
    ORDER_STATISTICS,
    PLATEAU,
    Floats,
    Head,
    pack_names,
)

ANY = "*"
#: Derived metrics with a formula in the native step, in the order of its numbers for them.
FORMULAS = (CPU, MEMORY, NETWORK, WAITING)
MOST_PARTS = 6
NO_PART = -1
#: A plan for the native step: its beginning, and a derived column.
SHAPE, FORMULA = struct.Struct("<10i"), struct.Struct(f"<{1 + MOST_PARTS}i")
_MOST_COLUMNS = 128  #: of one resource set; a record holds 255


@dataclass(frozen=True)
class Plan:
    """Columns of one resource set: first those in frames (``sources``: their positions), then derived
    ones with the positions of their parts and of the extra ones, NO_PART for those not in frames.
    ``thresholds`` and ``slacks`` float32 (C,), in the metrics' units; ``taus`` float64 (C,), time constants in seconds.
    ``window``, ``counted`` and ``depth`` in ticks, ``plateau`` in valid samples (0: none); ``order``: whether order
    statistics are kept.

    ``head``: that of its sections, except the steps. ``packed``: the plan for the native step, None if
    that lacks a formula.
    """

    names: tuple[str, ...]
    metrics: int
    window: int
    counted: int
    plateau: int
    depth: int
    order: bool
    sources: tuple[int, ...]
    derived: tuple[tuple[Derived, tuple[int, ...]], ...]
    thresholds: Floats
    slacks: Floats
    taus: npt.NDArray[np.float64]
    head: Head
    packed: bytes | None

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.names)

    @property
    def bursting(self) -> int | None:
        """The column with learned bursts; None if there is none."""
        return self.names.index(CPU) if self.head.bursts else None


@dataclass(frozen=True)
class InputsSettings:
    """Lengths of window, k of n and plateau; for the plateau the lowest and highest valid values are kept (0 seconds:
    none). ``depth``: number of recent values that stay readable.

    ``thresholds`` and ``slacks`` by SET.METRIC, with SET a name or ``*``, and ``*`` and ``?`` permitted in METRIC; the
    first matching pattern applies. A metric without threshold has no inputs, one without slack has K = 0.
    ``order_statistics``: the resource sets with median, MAD and quartiles; ``*``: all.
    """

    window: Span = DEFAULT_WINDOW
    counted: Span = DEFAULT_COUNTED
    plateau: Span = DEFAULT_PLATEAU
    depth: int = RECENT_TICKS
    order_statistics: tuple[str, ...] = DEFAULT_ORDER_STATISTICS
    thresholds: Mapping[str, float] = field(default_factory=lambda: DEFAULT_THRESHOLDS)
    slacks: Mapping[str, float] = field(default_factory=lambda: DEFAULT_SLACKS)

    def lengths(self, interval: float) -> Lengths:
        """These lengths in ticks of ``interval`` seconds."""
        window = _ticks(self.window, interval)
        plateau = _ticks(self.plateau, interval) if self.plateau.seconds else 0
        return Lengths(window, min(window, _ticks(self.counted, interval)), min(window, plateau))


class Lengths(NamedTuple):
    """Lengths of window and k of n in ticks, of the plateau in valid samples."""

    window: int
    counted: int
    plateau: int


def _ticks(span: Span, interval: float) -> int:
    """Number of ticks in a span, rounded up, tolerating the rounding of an interval on the wire."""
    return min(RECENT_TICKS, max(span.least, math.ceil(min(span.seconds / interval, RECENT_TICKS) - 1e-6)))


def make_plan(
    settings: InputsSettings,
    resource_set: int,
    metrics: tuple[str, ...],
    lengths: Lengths,
    tau_of: Callable[[str], float],
) -> Plan | None:
    """The plan of a resource set with these columns; None if none of its metrics is configured. ``tau_of`` returns the
    time constant of a metric, in seconds."""
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
            places = (metrics.index(part) if part in metrics else NO_PART for part in (*how.parts, *how.extra))
            derived.append((how, tuple(places)))
    if not names:
        return None
    taus = np.array([tau_of(name) for name in names])
    order = any(each == ANY or resource_set_id(each) == resource_set for each in settings.order_statistics)
    return Plan(
        tuple(names),
        len(metrics),
        *lengths,
        settings.depth,
        order,
        tuple(sources),
        tuple(derived),
        np.array([_value(settings.thresholds, resource_set, name) for name in names], np.float32),
        np.array([_value(settings.slacks, resource_set, name) or 0.0 for name in names], np.float32),
        taus,
        _head(settings, lengths, order, names, len(sources)),
        _pack(lengths, settings.depth, order, len(metrics), names, sources, derived, taus[len(sources) :]),
    )


def _head(settings: InputsSettings, lengths: Lengths, order: bool, names: Sequence[str], sources: int) -> Head:
    figures = order * ORDER_STATISTICS + bool(lengths.plateau) * PLATEAU
    size = len(pack_names(names))
    seconds = settings.window.seconds, settings.counted.seconds, settings.plateau.seconds
    bursts = len(BURST_FIGURES) * (CPU in names[sources:])
    head = Head(
        len(names),
        len(names) - sources,
        figures,
        bursts,
        *lengths,
        settings.depth,
        size,
        settings.window.least,
        0,
        0,
        *seconds,
    )
    return Head._make(HEADER.unpack(HEADER.pack(*head)))  # as when read back: seconds are float32


def _pack(
    lengths: Lengths,
    depth: int,
    order: bool,
    metrics: int,
    names: Sequence[str],
    sources: Sequence[int],
    derived: Sequence[tuple[Derived, tuple[int, ...]]],
    taus: npt.NDArray[np.float64],
) -> bytes | None:
    """A plan in the format of the native step (Shape and Derived of filters/worker/step/inputs.h)."""
    formulas = names[len(sources) :]
    if any(name not in FORMULAS for name in formulas):
        return None
    bursts = len(BURST_FIGURES) * (CPU in formulas)
    shape = len(sources), len(derived), metrics, *lengths, order, len(pack_names(names)), depth, bursts
    packed = [
        FORMULA.pack(FORMULAS.index(name), *parts, *(NO_PART,) * (MOST_PARTS - len(parts)))
        for name, (_, parts) in zip(formulas, derived, strict=True)
    ]
    return b"".join((SHAPE.pack(*shape), taus.tobytes(), struct.pack(f"<{len(sources)}i", *sources), *packed))


def misnamed(patterns: Iterable[str], known: Mapping[str, Iterable[str]]) -> str | None:
    """The first pattern that matches no metric of ``known`` (resource set -> metrics), including derived ones."""
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
