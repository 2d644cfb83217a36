"""The table of figures: targets, plot, and the bare side of the comparison with the limit."""

import json

from experiments.scale import __main__ as scale
from experiments.scale import sharding
from experiments.scale.runs import Extent, Row, Target

EXTENT = Extent(1.0, 1.0, 1, False)


def test_a_missed_target_or_a_failed_run_fails_unless_it_is_quick():
    rows = {"limit": Row([Target("ratio", 2.4, 2.0, False)], {}, [])}
    document = scale.summary([], rows, EXTENT)
    assert not document["passed"]
    assert document["missed"] == ["ratio: 2.4 is not at most 2"]
    assert scale.summary([], rows, EXTENT._replace(quick=True))["passed"]
    assert not scale.summary([], {"limit": rows["limit"]._replace(failures=["x"])}, EXTENT._replace(quick=True))[
        "passed"
    ]
    json.dumps(document)


def test_capacity_is_that_of_the_busiest_shard():
    figures = {
        "samples_smoothed_per_second": 1000,
        "shard_cores": {"0": 0.25, "1": 0.2},
        "cpu_seconds_per_million_samples": {"generator": 1.0, "shards": 2.0, "filter": 3.0, "reader": 4.0},
    }
    found = sharding.capacity(figures)
    assert found["samples_per_second"] == 4000
    assert found["cpu_seconds_per_million"]["all"] == 6.0
