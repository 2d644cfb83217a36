"""Row "one shard to two": how much more two shards take where shards are the bottleneck.

A shard is one thread on one core, so what ``n`` shards can take is the samples that went through
divided by the CPU seconds of the busiest of them (its core's capacity), whatever generator and filter need beside
them: these are measured apart, by their own CPU time, as two cores are too few for all. Both runs put
the same load on every shard (``hosts`` per shard at 1 Hz), because a shard works more cheaply the more
it finds at each turn of its loop. A closed loop with the same hosts on one and on two shards is measured as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiments.harness.options import Options
from experiments.scale.runs import RETENTION, WARM_UP, Extent, Row, Target, cost, measure

_HOSTS_PER_SHARD, _QUICK_HOSTS = 3000, 300
_ENTITIES, _METRICS = 101, 15
_AT_LEAST = 1.8


def row(extent: Extent) -> Row:
    """Paced runs with the same load per shard, and closed loops with the same hosts."""
    hosts = _QUICK_HOSTS if extent.quick else _HOSTS_PER_SHARD
    found: dict[str, Any] = {}
    failures: list[str] = []
    for shards in (1, 2):
        same = Options(
            metrics=_METRICS,
            seconds=extent.seconds,
            warmup=WARM_UP,
            retention_seconds=RETENTION,
            shards=shards,
            lean=True,
        )
        paced = replace(same, hosts=hosts * shards, entities=_ENTITIES, check=20)
        closed = replace(same, hosts=100, entities=100, rate=0.0)
        for name, options in (("paced", paced), ("closed", closed)):
            figures, wrong = measure(f"{shards} shard(s), {name}", options, extent.repeats)
            failures += wrong
            found[f"{name}_{shards}"] = capacity(figures)
    ratio = found["paced_2"]["samples_per_second"] / found["paced_1"]["samples_per_second"]
    loop = found["closed_2"]["samples_per_second"] / found["closed_1"]["samples_per_second"]
    targets = [
        Target("samples/s of two shards to those of one, the same load on each", round(ratio, 3), _AT_LEAST, True)
    ]
    return Row(targets, {**found, "ratio": round(ratio, 3), "closed_loop_ratio": round(loop, 3)}, failures)


def capacity(figures: dict[str, Any]) -> dict[str, Any]:
    """What the shards of a run could take if each had a core of its own and nothing else were short."""
    busiest = max(figures["shard_cores"].values())
    return {
        "samples_per_second": round(figures["samples_smoothed_per_second"] / busiest),
        "measured_samples_per_second": figures["samples_smoothed_per_second"],
        "busiest_shard_cores": busiest,
        "shard_cores": figures["shard_cores"],
        "cpu_seconds_per_million": cost(figures),
    }
