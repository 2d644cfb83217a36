"""Lean runs: windows of the whole pipeline with lean emulated hosts.

They measure the cost of shards and filter per sample, the age of values, and that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acquisition.config.inputs import Inputs
from experiments.harness import ingestion, outcome
from experiments.harness.options import Options
from experiments.paper.figure import SHARDPULSE, Extent, Point, Row
from experiments.paper.systems import DATABASE, FILTER
from experiments.processes.control import ChildFailed

GENERATOR, READER = "generator", "reader"
CORES, BUSIEST, COST = "cores", "busiest", "cpu_per_sample"  #: quantities, besides memory, frames, samples and ages
UNITS = {
    CORES: "cores, user and system time of all",
    BUSIEST: "cores, of the busiest shard",
    COST: "CPU seconds per million samples",
    "memory": "bytes, PSS",
    "frames": "frames/s",
    "samples": "samples/s",
    "age_p50": "seconds from sampling to readable",
    "age_p95": "seconds from sampling to readable",
}
ENTITIES, METRICS = 101, 15
POLL, WATCHED = 0.02, 32  #: of the reader: seconds between two looks, watched hosts
_WARM_UP = 5.0
_MANY, _LONG_WARM_UP = 5000, 15.0  #: this many hosts take longer to connect and to fill fresh memory
_POSITIONS = 10.0
_RETENTION = 1.0  #: of raw frames: the warm-up fills the streams
_ROLES = {DATABASE: "shards", FILTER: "filter", GENERATOR: "generator"}
_MOST_TOLD = 3
_WINDOWS = ("window_seconds", "counted_seconds", "plateau_seconds")


def point(name: str, hosts: int, shards: int, rate: float = 1.0) -> Point:
    """A window of ``hosts`` with ``rate`` frames a second each; it fails if samples are lost or values differ from the
    scalar model. Windows of decision inputs have as many values at any rate as at one frame a second."""
    warm_up = _LONG_WARM_UP if hosts >= _MANY else _WARM_UP
    parameters = {"h": hosts, "p": ENTITIES, "m": METRICS, "t": 1.0 / rate, "shards": shards}

    def measure(extent: Extent, directory: Path) -> Sequence[Row]:
        config = directory / "filter.toml"
        config.write_text(_config(rate))
        options = Options(
            hosts=hosts,
            entities=ENTITIES,
            metrics=METRICS,
            rate=rate,
            seconds=extent.seconds,
            warmup=warm_up,
            shards=shards,
            check=20,
            lean=True,
            filter_config=str(config),
            position_interval=_POSITIONS,
            poll_ms=POLL * 1000.0,
            watched=WATCHED,
            drain_seconds=120.0,
        )
        found = ingestion.measure(options)
        if found["failures"]:
            raise ChildFailed("; ".join(outcome.first(found["failures"], _MOST_TOLD)))
        return _rows(found["figures"])

    words = f"{name}-s{shards}-h{hosts}-r{rate:g}"
    return Point(words, parameters, measure, overhead=warm_up + 8.0 + hosts / 1000.0)


def _config(rate: float) -> str:
    shipped = Inputs()
    windows = [f"{name} = {getattr(shipped, name) / rate}\n" for name in _WINDOWS]
    return "".join([f"[filter]\nretention_seconds = {_RETENTION}\n[filter.inputs]\n", *windows])


def _rows(figures: dict[str, Any]) -> list[Row]:
    values: list[tuple[str, str, float]] = []
    for role, known in _ROLES.items():
        values.append((role, CORES, figures["cpu_cores"][known]))
        values.append((role, COST, figures["cpu_seconds_per_million_samples"][known]))
        values.append((role, "memory", figures["memory_bytes"][known]))
    values.append((DATABASE, BUSIEST, max(figures["shard_cores"].values())))
    values.append((DATABASE, "samples", figures["samples_smoothed_per_second"]))
    values.append((GENERATOR, "frames", figures["frames_per_second"]))
    for part in ("p50", "p95"):
        values.append((READER, f"age_{part}", figures["freshness_ms"][part] / 1000.0))
    at = figures["seconds"]
    return [Row(SHARDPULSE, role, quantity, UNITS[quantity], at, value) for role, quantity, value in values]
