"""Rows "small frames", "one filter core", "writers": closed-loop frame rates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from experiments.harness.options import Options
from experiments.harness.quantiles import medians
from experiments.scale.runs import Extent, Row, Target, cost, measure

_AT_LEAST = 30_000.0
_AT_LEAST_FULL = 22_000.0
_AT_LEAST_OF_LEAN = 0.35
_FULL_STREAMS = 10.0  #: seconds of warm-up after which streams have their full length


def small(extent: Extent) -> Row:
    """Host-only probes: frames of 1 x 15 as fast as they are smoothed."""
    hosts = 100 if extent.quick else 1000
    options = Options(hosts=hosts, entities=1, metrics=15, rate=0.0, seconds=extent.seconds, lean=True)
    figures, failures = measure("frames of 1 x 15", options, extent.repeats)
    frames = float(figures["frames_per_second"])
    return Row(
        [Target("frames/s of host-only probes (1 x 15)", frames, _AT_LEAST, True)],
        {"frames_per_second": frames, "cores": figures["cpu_cores"], "freshness_ms": figures["freshness_ms"]},
        failures,
    )


def filter_core(extent: Extent, inputs: str = "shipped", at_least: float | None = _AT_LEAST) -> Row:
    """Frames of 100 x 15 per second of the filter's CPU time, with these decision inputs."""
    options = Options(hosts=100, entities=100, metrics=15, rate=0.0, seconds=extent.seconds, lean=True, inputs=inputs)
    figures, failures = measure(f"frames of 100 x 15, inputs {inputs}", options, extent.repeats)
    per_core = 1e6 / 1500 / figures["cpu_seconds_per_million_samples"]["filter"]
    what = f"frames/s (100 x 15) of one filter core, by its CPU time, inputs {inputs}"
    return Row(
        [] if at_least is None else [Target(what, round(per_core), at_least, True)],
        {
            "samples_smoothed_per_second": figures["samples_smoothed_per_second"],
            "freshness_ms": figures["freshness_ms"],
            "samples_lost": figures["samples_lost"],
            "frames_per_filter_core": round(per_core),
            "samples_per_filter_core": round(per_core * 1500),
            "frames_per_second": figures["frames_per_second"],
            "cores": figures["cpu_cores"],
            "cpu_seconds_per_million": cost(figures),
        },
        failures,
    )


def filter_core_full(extent: Extent) -> Row:
    """The same with everything kept for VMs too."""
    return filter_core(extent, "full", _AT_LEAST_FULL)


def filter_core_off(extent: Extent) -> Row:
    """The same without decision inputs, for comparison."""
    return filter_core(extent, "off", None)


def writers(extent: Extent) -> Row:
    """The product's writer and outbox in every host, in turn with lean hosts."""
    warm_up = 3.0 if extent.quick else _FULL_STREAMS
    options = Options(hosts=100, entities=100, metrics=15, rate=0.0, seconds=extent.seconds, warmup=warm_up)
    runs: dict[str, list[dict[str, Any]]] = {"whole": [], "lean": []}
    failures: list[str] = []
    for _ in range(extent.repeats):
        for kind, found in runs.items():
            figures, wrong = measure(f"frames of 100 x 15, {kind} writers", replace(options, lean=kind == "lean"), 1)
            found.append(figures)
            failures += wrong
    whole, lean = (medians(found) for found in runs.values())
    ratio = round(whole["samples_smoothed_per_second"] / lean["samples_smoothed_per_second"], 3)
    return Row(
        [Target("samples/s with the product's writers to those of lean hosts", ratio, _AT_LEAST_OF_LEAN, True)],
        {
            "ratio": ratio,
            "samples_smoothed_per_second": whole["samples_smoothed_per_second"],
            "lean_samples_smoothed_per_second": lean["samples_smoothed_per_second"],
            "freshness_ms": whole["freshness_ms"],
            "samples_lost": whole["samples_lost"] + lean["samples_lost"],
            "cores": whole["cpu_cores"],
        },
        failures,
    )
