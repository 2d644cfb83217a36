"""Rows "small frames" and "one filter core": frames per second through the closed loop."""

from __future__ import annotations

from experiments.harness.options import Options
from experiments.scale.runs import Plan, Row, Target, cost, measure

_AT_LEAST = 30_000.0


def small(plan: Plan) -> Row:
    """Host-only probes: frames of 1 x 15 as fast as they are smoothed."""
    hosts = 100 if plan.quick else 1000
    options = Options(hosts=hosts, entities=1, metrics=15, rate=0.0, seconds=plan.seconds, lean=True)
    figures, failures = measure("frames of 1 x 15", options, plan.repeats)
    frames = float(figures["frames_per_second"])
    return Row(
        [Target("frames/s of host-only probes (1 x 15)", frames, _AT_LEAST, True)],
        {"frames_per_second": frames, "cores": figures["cpu_cores"], "freshness_ms": figures["freshness_ms"]},
        failures,
    )


def filter_core(plan: Plan) -> Row:
    """Frames of 100 x 15 per second of the filter's CPU time."""
    options = Options(hosts=100, entities=100, metrics=15, rate=0.0, seconds=plan.seconds, lean=True)
    figures, failures = measure("frames of 100 x 15", options, plan.repeats)
    per_core = 1e6 / 1500 / figures["cpu_seconds_per_million_samples"]["filter"]
    return Row(
        [Target("frames/s (100 x 15) of one filter core, by its CPU time", round(per_core), _AT_LEAST, True)],
        {
            "frames_per_filter_core": round(per_core),
            "samples_per_filter_core": round(per_core * 1500),
            "frames_per_second": figures["frames_per_second"],
            "cores": figures["cpu_cores"],
            "cpu_seconds_per_million": cost(figures),
        },
        failures,
    )
