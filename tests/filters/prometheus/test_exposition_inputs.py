"""Decision inputs in the exposition: of hosts, of entities where asked for, what is derived, and what is warming."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from acquisition.model import codes
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.inputs import InputsTable
from acquisition.snapshot.values.states import LATE
from acquisition.wire.records import inputs as wire
from filters.prometheus import Options, render
from filters.prometheus.inputs import FIGURES
from probes.metrics import HOST, PROCESSES
from tests.support.exposition_blocks import block, host_entity, process, snapshot
from tests.support.exposition_parts import table

DERIVED = ("cpu_busy_ratio",)
CPU = "shardpulse_processes_cpu"
BUSY = "shardpulse_host_cpu_busy"
Series = dict[str, dict[tuple[str, ...], float]]


def web() -> Block:
    return block("web", "host", [host_entity("web")], HOST.metrics)


def processes() -> Block:
    return block("web", "processes", [process("web", 1, "init"), process("web", 2, "nginx")], PROCESSES.metrics)


def read(*pairs: tuple[Block, InputsTable | None], **options: str) -> Series:
    tables = {(one.host_id, one.set_id): found for one, found in pairs if found is not None}
    text = render(snapshot(*(one for one, _ in pairs)), None, Options(**options), tables=tables).decode()
    series: Series = {}
    for family in openmetrics.text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            series.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    lines = [line for line in text.split("\n")[:-1] if not line.startswith("#")]
    assert len(lines) == sum(map(len, series.values()))  # no series and no family stands there twice
    return series


def value(plane: str, column: int = 0, row: int = 0) -> float:
    return 20.0 * wire.KEPT.index(plane) + 5 * column + row


def test_every_figure_of_a_host_by_name_and_unit() -> None:
    one = web()
    series = read((one, table(one, ("cpu_idle_ratio", *DERIVED), 1)))
    for plane, name in (
        ("above", "ratio_above_ticks"), ("time_above", "ratio_above_seconds"), ("counted", "ratio_counted_valid_ticks"),
        ("valid", "ratio_valid_ticks"), ("cusum", "cusum_ratio"), ("median", "median_ratio"), ("mad", "mad_ratio"),
        ("q1", "q1_ratio"), ("q3", "q3_ratio"),
        ("lowest", "lowest_ratio"), ("highest", "highest_ratio"),
    ):  # fmt: skip
        assert series[f"{BUSY}_{name}"] == {("web",): value(plane, 1)}, name
    assert series[f"{BUSY}_threshold_ratio"] == {("web",): 1.5}
    assert series["shardpulse_inputs_window_ticks"] == {("web", "host"): 30}
    assert series["shardpulse_inputs_plateau_samples"] == {("web", "host"): 4}
    assert series["shardpulse_inputs_counted_ticks"] == {("web", "host"): 5}
    assert "shardpulse_inputs_warming" not in series
    assert "shardpulse_host_cpu_idle_median_ratio" not in series  # no value is no series
    assert sum(name.startswith(f"{BUSY}_") for name in series) >= len(FIGURES) + 1 + 3


def test_thresholds_have_the_digits_that_were_configured() -> None:
    one = web()
    found = table(one, DERIVED, 1, threshold=0.9)
    text = render(snapshot(one), None, Options(), tables={(one.host_id, one.set_id): found}).decode()
    (line,) = (each for each in text.split("\n") if each.startswith(f"{BUSY}_threshold_ratio{{"))
    assert line.endswith(" 0.9")


def test_without_a_valid_sample_there_is_nothing_that_goes_on() -> None:
    one = web()
    series = read((one, table(one, DERIVED, 1, valid=0)))
    assert series[f"{BUSY}_ratio_valid_ticks"] == {("web",): 0.0}
    assert not {f"{BUSY}_cusum_ratio", f"{BUSY}_ratio_above_seconds"} & set(series)


def test_what_the_filter_derives_has_its_averages_too() -> None:
    one = web()
    names = ("cpu_idle_ratio", *DERIVED)
    series = read((one, table(one, names, 1)))
    assert series[f"{BUSY}_ratio"] == {("web",): 0.375}
    assert series[f"{BUSY}_deviation_ratio"] == {("web",): 2.0}
    assert series[f"{BUSY}_trend_ratio_per_second"] == {("web",): 0.25}
    assert series[f"{BUSY}_last_ratio"] == {("web",): 0.5}
    failed = read((one, table(one, names, 1, code=codes.RANGE, age=2.0)))
    assert f"{BUSY}_last_ratio" not in failed
    assert failed[f"{BUSY}_ratio"] == {("web",): 0.375}
    assert failed["shardpulse_sample_invalid"] == {("web", "host", "cpu_busy_ratio", "RANGE"): 1}
    assert failed["shardpulse_sample_stale_seconds"] == {("web", "host", "cpu_busy_ratio"): 2.0}
    old = read((one, table(one, names, 1, code=codes.MISSING, age=3.5)))
    assert f"{BUSY}_ratio" not in old


def test_a_derived_metric_that_a_frame_carries_stands_there_once() -> None:
    one = web()
    series = read((one, table(one, ("cpu_idle_ratio", "memory_total_bytes"), 1)))
    column = [metric.name for metric in one.metrics].index("memory_total_bytes")
    assert series["shardpulse_host_memory_total_bytes"] == {("web",): float(column)}


def test_metrics_that_differ_in_their_unit_alone() -> None:
    one = web()
    series = read((one, table(one, ("memory_used_ratio", "memory_used_bytes", "memory_used"))))
    found = [name for name in series if name.endswith("_above_ticks")]
    assert len(found) == 3


@pytest.mark.parametrize(("inputs", "hosts", "entities"), [("hosts", 1, 0), ("all", 1, 2), ("none", 0, 0)])
def test_whose_inputs_are_exposed(inputs: str, hosts: int, entities: int) -> None:
    own, rest = web(), processes()
    series = read((own, table(own, DERIVED, 1)), (rest, table(rest, ("cpu_ratio",))), inputs=inputs)
    assert len(series.get(f"{BUSY}_cusum_ratio", ())) == hosts
    assert len(series.get(f"{CPU}_cusum_ratio", ())) == entities
    assert len(series.get("shardpulse_inputs_window_ticks", ())) == hosts + (entities > 0)
    assert series[f"{BUSY}_ratio"]  # an average of hosts, not a decision input
    if entities:
        assert sorted(series[f"{CPU}_ratio_above_ticks"].values()) == [value("above"), value("above", 0, 1)]
        assert len(series[f"{CPU}_median_ratio"]) == 1
        assert series[f"{CPU}_threshold_ratio"] == {("web",): 0.5}


def test_entities_that_are_left_out_have_no_inputs() -> None:
    rest = processes()
    series = read((rest, table(rest, ("cpu_ratio",))), inputs="all", entities=False)
    assert not [name for name in series if name.startswith(CPU)]


def test_a_window_that_is_not_full_is_marked() -> None:
    own, rest = web(), processes()
    pairs = (own, table(own, DERIVED, 1, seen=7)), (rest, table(rest, ("cpu_ratio",), seen=29))
    series = read(*pairs, inputs="all")["shardpulse_inputs_warming"]
    assert {labels[0] for labels in series} == {"web"}
    assert {labels[-1] for labels in series} == {"host", "processes"}
    assert len(series) == 3


def test_late_hosts_and_hosts_without_inputs_have_none() -> None:
    own, other = web(), block("db", "host", [host_entity("db")], HOST.metrics)
    found = table(own, DERIVED, 1)
    own.has_values, own.state = False, LATE
    series = read((own, found), (other, None))
    assert not [name for name in series if name.startswith((BUSY, "shardpulse_inputs"))]
