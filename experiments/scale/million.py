"""Rows of a million and two million VMs: 10,000 and 20,000 hosts x (1 + 100) entities x 15 metrics at 1 Hz."""

from __future__ import annotations

from experiments.harness.options import Options
from experiments.scale.runs import RETENTION, Extent, Row, Target, cost, measure

_FIGURES = (
    "seconds", "samples_offered_per_second", "samples_smoothed_per_second", "backlog_samples", "samples_made",
    "samples_lost", "missed_ticks", "freshness_ms", "cpu_cores", "memory_bytes", "snapshot_seconds",
)  # fmt: skip
_MOST_CORES = 1.0
_MOST_CORES_FULL = 1.2
_WARM_UP = 20.0
#: With so many probes each asks for its positions less often than by default, and the freshness reader looks rarely.
_POSITION_SECONDS, _POLL_MS, _WATCHED = 10.0, 10.0, 16
_MOST_MS, _STRETCH_MS = 250.0, 1000.0
#: Of 20,000: as many questions for positions as of half as many hosts; and they begin one after the other, since first
#: frames and fresh memory cost more than there is to spare, and what waits has to be caught up with.
_TWO_POSITION_SECONDS, _TWO_JOINING, _TWO_WARM_UP = 20.0, 60.0, 110.0


def one(extent: Extent) -> Row:
    """15.15 million samples/s, 10,000 connections; lean hosts leave the two cores to the pipeline."""
    return _row("a million VMs", 100 if extent.quick else 10_000, extent, _MOST_MS, _MOST_CORES)


def one_whole(extent: Extent) -> Row:
    """The same with the product's writer and outbox in every emulated host: the pipeline lacks their CPU time."""
    hosts = 100 if extent.quick else 10_000
    return _row("a million VMs, whole writers", hosts, extent, _STRETCH_MS, _MOST_CORES, lean=False)


def one_full(extent: Extent) -> Row:
    """A million VMs with every decision input kept for each."""
    hosts = 100 if extent.quick else 10_000
    return _row("a million VMs, full inputs", hosts, extent, _MOST_MS, _MOST_CORES_FULL, inputs="full")


def two(extent: Extent) -> Row:
    """30.3 million samples/s, 20,000 connections; two filter workers, so that one computes while the other waits for a
    shard to take a commit."""
    hosts = 200 if extent.quick else 20_000
    return _row("two million VMs", hosts, extent, _STRETCH_MS, None, filters=2, joining=not extent.quick)


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
    joining: bool = False,
) -> Row:
    options = Options(
        hosts=hosts,
        entities=entities,
        metrics=15,
        seconds=extent.long_seconds,
        warmup=1.0 if extent.quick else _TWO_WARM_UP if joining else _WARM_UP,
        joining_seconds=_TWO_JOINING if joining else 0.0,
        retention_seconds=RETENTION,
        drain_seconds=120.0,
        position_interval=_TWO_POSITION_SECONDS if joining else _POSITION_SECONDS,
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
