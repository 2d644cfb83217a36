"""Repeated runs of the ingestion benchmark, medians and shared figures."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from experiments.harness import ingestion, outcome
from experiments.harness.options import Options
from experiments.harness.quantiles import medians

PIPELINE = ("generator", "shards", "filter")  #: roles that process samples; the freshness reader only measures

#: Retention of raw frames, after which a run is warm: before, a shard's memory grows with every frame, and the kernel's
#: clearing of fresh pages is a third of the shard's CPU time.
RETENTION = 1.0
WARM_UP = 5.0

_MOST_TOLD = 6  #: of a run's failures; ingest lists all


class Extent(NamedTuple):
    """Extent of the measurement: seconds of a window, repeats; with ``quick`` only a small part is measured."""

    seconds: float
    long_seconds: float
    repeats: int
    quick: bool


class Target(NamedTuple):
    """One line of the table: ``met`` is None for a quick run, whose figures have no meaning."""

    what: str
    measured: float
    bound: float
    at_least: bool

    def met(self) -> bool:
        """Whether the measured figure is within the bound."""
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


class Row(NamedTuple):
    """Result of a row of the table: its targets, its figures, and why a run in it does not count."""

    targets: list[Target]
    figures: dict[str, Any]
    failures: list[str]


def measure(label: str, options: Options, repeats: int) -> tuple[dict[str, Any], list[str]]:
    """Medians of the figures of ``repeats`` runs, and the failures of all."""
    runs = []
    for number in range(repeats):
        runs.append(ingestion.measure(options))
        tell(label, number, runs[-1])
    failures = [f"{label}: {failure}" for run in runs for failure in outcome.first(run["failures"], _MOST_TOLD)]
    return medians([run["figures"] for run in runs]), failures


def tell(label: str, number: int, run: dict[str, Any]) -> None:
    """Print progress on stderr."""
    figures = run["figures"]
    cost = sum(figures["cpu_seconds_per_million_samples"][role] for role in PIPELINE)
    print(
        f"{label}, run {number + 1}: {figures['samples_smoothed_per_second']:,} samples/s, {cost:.4f} CPU s per million"
        + (f", FAILED: {'; '.join(outcome.first(run['failures'], _MOST_TOLD))}" if run["failures"] else ""),
        file=sys.stderr,
        flush=True,
    )


def cost(figures: dict[str, Any]) -> dict[str, float]:
    """CPU seconds per million samples by role, and of all roles that process samples."""
    found: dict[str, float] = {role: figures["cpu_seconds_per_million_samples"][role] for role in PIPELINE}
    return found | {"all": round(sum(found.values()), 5)}
