"""Rows of one and two million VMs: 10,000 and 20,000 hosts.

Each host has (1 + 100) entities x 15 metrics at 1 Hz.
"""

from __future__ import annotations

from typing import NamedTuple

from experiments.harness.options import Options
from experiments.scale.runs import RETENTION, Extent, Row, Target, cost, measure

_FIGURES = (
    "seconds", "samples_offered_per_second", "samples_smoothed_per_second", "backlog_samples", "samples_made",
    "samples_lost", "missed_ticks", "freshness_ms", "cpu_cores", "memory_bytes", "snapshot_seconds",
)  # fmt: skip
_MOST_CORES = 1.0
_MOST_CORES_FULL = 1.2
#: With this many probes the freshness reader polls rarely.
_POLL_MS, _WATCHED = 10.0, 16
_MOST_MS, _STRETCH_MS = 250.0, 1000.0


class _Start(NamedTuple):
    """Seconds over which hosts begin, those until the window, and those after which a host asks for its positions
    again: the more hosts, the longer."""

    joining: float
    warm_up: float
    positions: float


_AT_ONCE = _Start(0.0, 20.0, 10.0)
#: For rows with first frames and fresh memory too costly for the spare CPU time, so that a backlog builds up.
_IN_TURN = _Start(60.0, 110.0, 20.0)
_QUICK = _Start(0.0, 1.0, 10.0)


def one(extent: Extent) -> Row:
    """15.15 million samples/s, 10,000 connections; lean hosts leave both cores to the pipeline."""
    return _row("a million VMs", 100 if extent.quick else 10_000, extent, _MOST_MS, _MOST_CORES)


def one_whole(extent: Extent) -> Row:
    """The same with the product's writer and outbox in every emulated host: the pipeline lacks their CPU time."""
    hosts = 100 if extent.quick else 10_000
    return _row("a million VMs, whole writers", hosts, extent, _STRETCH_MS, _MOST_CORES, lean=False)


def one_full(extent: Extent) -> Row:
    """A million VMs with all decision inputs kept for each."""
    hosts = 100 if extent.quick else 10_000
    return _row("a million VMs, full inputs", hosts, extent, _MOST_MS, _MOST_CORES_FULL, inputs="full")


def two(extent: Extent) -> Row:
    """30.3 million samples/s, 20,000 connections; two filter workers, as one would not get its share of full cores
    (docs/decisions/0006)."""
    hosts = 200 if extent.quick else 20_000
    return _row("two million VMs", hosts, extent, _STRETCH_MS, None, filters=2, start=_IN_TURN)


def two_dense(extent: Extent) -> Row:
    """30.3 million samples/s as well, of hosts with twice as many VMs: 10,000 connections."""
    hosts = 100 if extent.quick else 10_000
    return _row("two million VMs, 201 a host", hosts, extent, _STRETCH_MS, None, entities=202, filters=2)


def _row(
    label: str,
    hosts: int,
    extent: Extent,
    milliseconds: float,
    cores: float | None,
    lean: bool = True,
    entities: int = 101,
    filters: int = 1,
    inputs: str = "shipped",
    start: _Start = _AT_ONCE,
) -> Row:
    start = _QUICK if extent.quick else start
    options = Options(
        hosts=hosts,
        entities=entities,
        metrics=15,
        seconds=extent.long_seconds,
        warmup=start.warm_up,
        joining_seconds=start.joining,
        retention_seconds=RETENTION,
        drain_seconds=120.0,
        position_interval=start.positions,
        poll_ms=_POLL_MS,
        watched=_WATCHED,
        lean=lean,
        filters=filters,
        inputs=inputs,
    )
    figures, failures = measure(label, options, 1)
    used = figures["cpu_cores"]["shards"] + figures["cpu_cores"]["filter"]
    targets = [
        Target(f"{label}: samples lost", figures["samples_lost"], 0.0, False),
        Target(f"{label}: freshness p99, ms", figures["freshness_ms"]["p99"] or 0.0, milliseconds, False),
    ]
    if cores is not None:
        targets.append(Target(f"{label}: cores of shards and filters", round(used, 3), cores, False))
    found = {name: figures[name] for name in _FIGURES} | {"cpu_seconds_per_million": cost(figures)}
    return Row(targets, found, failures)
