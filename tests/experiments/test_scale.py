"""The table of figures: targets, plot, and the bare side of the comparison with the limit."""

import json

import pytest

from acquisition.errors import UsageError
from experiments.harness.options import Options
from experiments.scale import __main__ as scale
from experiments.scale import limit, sharding
from experiments.scale.runs import Extent, Row, Target

EXTENT = Extent(1.0, 1.0, 1, False)


def test_targets_have_a_direction():
    assert Target("ratio", 1.9, 1.8, True).met()
    assert not Target("ratio", 1.9, 1.8, False).met()
    assert Target("lost", 0.0, 0.0, False).met()


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


def test_rows_are_chosen_by_name():
    _, names, extent = scale.parse(["--rows", "limit,small", "--seconds", "4", "--repeats", "2"])
    assert names == ["limit", "small"]
    assert extent == Extent(4.0, 4.0, 2, False)
    assert scale.parse([])[2] == Extent(15.0, 300.0, 3, False)
    for argv in (["--rows", "speed"], ["--repeats", "0"], ["--seconds", "0"]):
        with pytest.raises(UsageError):
            scale.parse(argv)


@pytest.mark.few
def test_bare_entries_are_answered_and_trimmed():
    options = Options(hosts=40, entities=5, metrics=3, rate=4.0, seconds=1.5, warmup=0.5)
    found = limit.measure_bare(options)
    assert found["frames_per_second"] == pytest.approx(160, rel=0.25)
    assert found["missed"] == 0
    assert found["us"] >= 0
    assert limit.kept_entries(Options(hosts=640_000, entities=100, metrics=15)) == (16 << 20) // 8396
    assert limit.kept_entries(options) == 2


def test_the_cost_is_plotted(tmp_path):
    from experiments.scale.plot import draw  # with matplotlib: for whoever runs it alone

    roles = {"generator": 0.1, "shards": 0.2, "filter": 0.3, "all": 0.6}
    points = [{"samples_per_second": rate, "cpu_seconds_per_million": roles} for rate in (10_000, 1_000_000)]
    draw({"points": points, "ratios": {"all": 1.0}}, tmp_path / "cost.png")
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
