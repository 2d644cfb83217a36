import math

from probes.metrics import HOST, PIDSTAT_METRICS, PROCESSES, RESOURCE_SETS, VMS, VMSTAT_METRICS, WITHIN_MEMORY
from probes.metrics.__main__ import markdown
from probes.tools import vmstat
from tests.support import ROOT

DOCUMENT = ROOT / "docs" / "metrics.md"
_FLOAT32_MAX = 3.4e38


def test_the_document_is_what_the_code_says() -> None:
    assert DOCUMENT.read_text() == markdown(), "python -m probes.metrics > docs/metrics.md"


def test_names_and_order() -> None:
    assert tuple(metric.name for metric in HOST.metrics)[: len(VMSTAT_METRICS)] == VMSTAT_METRICS
    assert set(VMSTAT_METRICS) == {metric for metric, _ in vmstat._COLUMNS.values()}
    assert tuple(metric.name for metric in PROCESSES.metrics) == PIDSTAT_METRICS
    assert VMS.metrics[:15] == tuple(metric for metric in PROCESSES.metrics if metric.name != "cpu_wait_ratio")


def test_every_metric_is_complete() -> None:
    for resource_set in RESOURCE_SETS.values():
        names = [metric.name for metric in resource_set.metrics]
        assert len(names) == len(set(names))
        for metric in resource_set.metrics:
            assert metric.help
            assert metric.unit
            assert math.isfinite(metric.low)
            assert 0 <= metric.low < metric.high < _FLOAT32_MAX, "what passes the range check fits a frame"


def test_memory_limits_name_metrics_that_exist() -> None:
    assert {metric.name for each in RESOURCE_SETS.values() for metric in each.metrics} >= WITHIN_MEMORY
