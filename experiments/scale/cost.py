"""Row "cost per sample": what a million samples cost at 10^4 to 3 x 10^7 samples/s, in CPU seconds by role.

Hosts of 202 entities x 15 metrics at 1 Hz and two filter workers; only the number of hosts grows. So a straight
line means that nothing in the pipeline grows faster than the load.
"""

from __future__ import annotations

from experiments.harness.options import Options
from experiments.scale.runs import RETENTION, WARM_UP, Extent, Row, Target, cost, measure

_ENTITIES, _METRICS = 202, 15
_RATES = (1e4, 1e5, 1e6, 3e6, 1e7, 3e7)
_QUICK_RATES = (1e4, 1e5, 1e6)
_BASE = 1e6
_LARGE = 5e6  #: from here on runs take a while to start: fewer repeats
_MOST = 1.25


def row(extent: Extent) -> Row:
    """Measure all rates, each as often as ``extent`` says."""
    points, failures = [], []
    for rate in _QUICK_RATES if extent.quick else _RATES:
        hosts = max(1, round(rate / (_ENTITIES * _METRICS)))
        options = Options(
            hosts=hosts,
            entities=_ENTITIES,
            metrics=_METRICS,
            seconds=extent.seconds,
            warmup=WARM_UP,
            retention_seconds=RETENTION,
            drain_seconds=60.0,
            check=20,
            lean=True,
            filters=2,
        )
        figures, wrong = measure(f"cost at {rate:,.0f} samples/s", options, extent.repeats if rate < _LARGE else 1)
        failures += wrong
        points.append({
            "samples_per_second": figures["samples_smoothed_per_second"],
            "hosts": hosts,
            "cpu_seconds_per_million": cost(figures),
            "freshness_ms": figures["freshness_ms"],
            "samples_lost": figures["samples_lost"],
            "cores": figures["cpu_cores"],
        })  # fmt: skip
    base = next(
        point for point, rate in zip(points, _QUICK_RATES if extent.quick else _RATES, strict=True) if rate == _BASE
    )
    ratios = {
        role: round(points[-1]["cpu_seconds_per_million"][role] / max(1e-9, base["cpu_seconds_per_million"][role]), 3)
        for role in base["cpu_seconds_per_million"]
    }
    target = Target("CPU per sample at 30 million/s to that at 1 million/s", ratios["all"], _MOST, False)
    return Row([target], {"points": points, "ratios": ratios}, failures)
