"""What of a snapshot is exposed, and what is absent: read back by Prometheus's own Python parser."""

from __future__ import annotations

import numpy as np
import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as classic

from acquisition.model import codes
from acquisition.model.metric import Metric
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.names import Names
from acquisition.snapshot.values.states import DOWN, LATE
from acquisition.wire.table import Table
from filters.prometheus import CLASSIC, OPENMETRICS, Options, Prepared, chunks, render
from probes.metrics import HOST, PROCESSES, VMS
from tests.support import scene
from tests.support.exposition_blocks import NOW, block, host_entity, process, snapshot

NAN = float("nan")
CPU = "shardpulse_processes_cpu_ratio"
ALL = Options(figures=("mean", "deviation", "trend", "last"))


def read(found: Snapshot, options: Options | None = None, **more) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by series name and then by the values of the labels."""
    text = render(found, None, options, **more).decode()
    series: dict[str, dict[tuple[str, ...], float]] = {}
    for family in openmetrics.text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            known = series.setdefault(sample.name, {})
            assert tuple(sample.labels.values()) not in known, sample
            assert sample.timestamp is None
            known[tuple(sample.labels.values())] = sample.value
    lines = [line for line in text.split("\n")[:-1] if not line.startswith("#")]
    assert len(lines) == sum(map(len, series.values()))  # the parser passes over repeated series
    return series


def web(**options) -> Block:
    return block("web", "processes", [process("web", 1, "init"), process("web", 2, "nginx")], **options)


def by_entity(series: dict[tuple[str, ...], float]) -> dict[str, float]:
    return {labels[1]: value for labels, value in series.items()}


def test_figures_of_hosts_and_entities() -> None:
    series = read(snapshot(web(), block("web", "host", [host_entity("web")])), ALL)
    assert by_entity(series[CPU]) == {"init": 0.0, "nginx": 10.0}
    assert by_entity(series["shardpulse_processes_memory_resident_bytes"]) == {"init": 1.0, "nginx": 11.0}
    assert by_entity(series["shardpulse_processes_memory_resident_deviation_bytes"]) == {"init": 2.0, "nginx": 2.0}
    assert by_entity(series["shardpulse_processes_memory_resident_trend_bytes_per_second"])["init"] == 0.5
    assert by_entity(series["shardpulse_processes_memory_resident_last_bytes"]) == {"init": 2.0, "nginx": 12.0}
    assert series["shardpulse_host_cpu_ratio"] == {("web",): 0.0}
    assert series["shardpulse_host_cpu_last_ratio"] == {("web",): 1.0}


def test_age_and_validity_stand_beside_the_samples() -> None:
    series = read(snapshot(web(exceptions=[(2, codes.RANGE, 2.5), (3, codes.OUTLIER_FLAG, 0.0)])))
    assert series["shardpulse_set_age_seconds"] == {("web", "processes"): pytest.approx(0.7)}
    assert series["shardpulse_set_current"] == {("web", "processes"): 1}
    assert series["shardpulse_set_down"] == {("web", "processes"): 0}
    assert series["shardpulse_set_clock_offset_seconds"] == {("web", "processes"): pytest.approx(-0.01)}
    assert series["shardpulse_set_samples"] == {
        ("web", "processes", "VALID"): 2, ("web", "processes", "RANGE"): 1, ("web", "processes", "VALID|OUTLIER"): 1,
    }  # fmt: skip
    nginx = f"{process('web', 2, 'nginx').id:016x}"
    labels = ("web", "nginx", nginx, "processes", "cpu_ratio")
    assert series["shardpulse_sample_invalid"] == {(*labels, "RANGE"): 1}
    assert series["shardpulse_sample_stale_seconds"] == {labels: 2.5}
    assert series["shardpulse_set_applied_samples_total"] == {("web", "processes"): 900}
    assert by_entity(series[CPU]) == {"init": 0.0, "nginx": 10.0}  # not valid now, but for 2.5 s only


def test_none_of_the_samples_is_valid() -> None:
    series = read(snapshot(web(exceptions=[(place, codes.TIMEOUT, 99.0) for place in range(4)])))
    assert series["shardpulse_set_samples"] == {("web", "processes", "VALID"): 0, ("web", "processes", "TIMEOUT"): 4}


def test_what_was_never_valid_or_not_for_long_is_absent_not_zero() -> None:
    mean = np.array([[NAN, 1.0], [5.0, 6.0]])
    exceptions = [(0, codes.FIRST, float("inf")), (2, codes.TIMEOUT, 3.5), (3, codes.TIMEOUT, 2.5)]
    series = read(snapshot(web(mean=mean, exceptions=exceptions)), ALL)
    for figure in ("", "deviation_", "trend_", "last_"):
        name = f"shardpulse_processes_cpu_{figure}ratio" + ("_per_second" if figure == "trend_" else "")
        assert name not in series, figure
    assert by_entity(series["shardpulse_processes_memory_resident_bytes"]) == {"init": 1.0, "nginx": 6.0}
    assert by_entity(series["shardpulse_processes_memory_resident_last_bytes"]) == {"init": 2.0}  # the other failed
    stale = series["shardpulse_sample_stale_seconds"]
    assert sorted(stale.values()) == [2.5, 3.5]  # of what was never valid no time is known
    assert {labels[-1] for labels in series["shardpulse_sample_invalid"]} == {"TIMEOUT"}
    assert [labels[-1] for labels in series["shardpulse_sample_without_value"]] == ["FIRST"]


def test_a_late_host_has_an_age_and_no_values() -> None:
    late = web()
    late.has_values, late.state, late.age_seconds = False, LATE, 3.5
    series = read(snapshot(late))
    assert CPU not in series
    assert "shardpulse_set_samples" not in series
    assert series["shardpulse_set_current"] == {("web", "processes"): 0}
    assert series["shardpulse_set_age_seconds"] == {("web", "processes"): 3.5}


def test_a_host_that_is_down_has_no_values_in_a_latest_reading_either() -> None:
    gone = web(age=60.0)
    gone.state = DOWN
    series = read(snapshot(gone, reading="latest"))
    assert CPU not in series
    assert series["shardpulse_set_down"] == {("web", "processes"): 1}
    assert series["shardpulse_snapshot_info"] == {("latest",): 1}


def test_nothing_known_of_a_block() -> None:
    series = read(snapshot(Block(1, 2, None), errors=["shard x: refused"]))
    assert series["shardpulse_set_current"] == {("0000000000000001", "00000002"): 0}
    assert "shardpulse_set_age_seconds" not in series
    assert "shardpulse_set_applied_samples_total" not in series
    assert series["shardpulse_snapshot_errors"] == {(): 1}
    assert series["shardpulse_snapshot_timestamp_seconds"] == {(): NOW}


def test_an_empty_snapshot_is_a_valid_answer() -> None:
    assert set(read(snapshot())) >= {"shardpulse_build_info", "shardpulse_snapshot_errors"}


def test_limited_to_hosts() -> None:
    found = snapshot(web(exceptions=[(0, codes.RANGE, 1.0)]), block("web", "host", [host_entity("web")]))
    series = read(found, Options(entities=False))
    assert not [name for name in series if "processes" in name]
    assert "shardpulse_sample_invalid" not in series
    assert series["shardpulse_set_samples"]["web", "processes", "RANGE"] == 1  # counts stay
    assert {labels[3] for labels in series["shardpulse_entity_info"]} == {"host"}
    assert "shardpulse_host_cpu_ratio" in series


def test_an_entity_is_identified_beside_its_labels() -> None:
    series = render(snapshot(block("web", "vms", [process("web", 7, "qemu", {"rack": "r1", "the owner": 'a"b\n'})])))
    info = next(line for line in series.decode().splitlines() if line.startswith("shardpulse_entity_info"))
    assert 'kind="process",stable="web:7",epoch="1",label_rack="r1",label_U__the_20_owner="a\\"b\\n"}' in info


def test_columns_without_a_table_are_left_out_and_counted() -> None:
    series = read(snapshot(web(named=False)))
    assert not [name for name in series if "processes" in name or "_0" in name]
    assert series["shardpulse_snapshot_unnamed_sets"] == {(): 1}
    assert list(series["shardpulse_set_entities"].values()) == [2]


def test_no_host_takes_the_name_of_another() -> None:
    true, false = web(), block("evil", "processes", [process("web", 1, "init")])
    false.host = "web"  # what its table says
    series = read(snapshot(true, false))
    assert {labels[0] for labels in series[CPU]} == {"web", f"{false.host_id:016x}"}


@pytest.mark.parametrize("name", ["\ud800", "", "web\x00"])
def test_a_host_whose_name_is_none(name: str) -> None:
    lying = web()
    lying.host = name
    series = read(snapshot(lying))
    assert {labels[0] for labels in series[CPU]} == {f"{lying.host_id:016x}"}


def test_a_record_of_other_columns_than_its_schema_says_is_left_out() -> None:
    odd = web()
    odd.use_names(Names(Table("web", "processes", 1.0, "", True, scene.METRICS[:1], ())), None)
    assert odd.names is not None
    odd.names.schema = odd.schema
    series = read(snapshot(odd))
    assert not [name for name in series if "processes" in name or "_0" in name]
    assert series["shardpulse_snapshot_unnamed_sets"] == {(): 1}


def test_ids_and_columns_that_repeat_make_one_series() -> None:
    one = process("web", 1, "init")
    metrics = (scene.METRICS[0], scene.METRICS[0])
    series = read(snapshot(block("web", "processes", [one, one], metrics, exceptions=[(2, codes.RANGE, 1.0)] * 2)))
    assert by_entity(series[CPU]) == {"init": 0.0}


@pytest.mark.parametrize("value", [2e-38, 1.0 / 3.0, 16777217.0, 2.0**57, 3.4e38, -1.5, 0.0])
def test_every_digit_of_a_float32_survives(value: float) -> None:
    for mean in (np.full((2, 2), value), np.array([[NAN, NAN], [value, value]])):
        series = read(snapshot(web(mean=mean)))
        assert {np.float32(number) for number in series[CPU].values()} == {np.float32(value)}


def test_what_a_moving_average_leaves_of_long_ago_is_zero() -> None:
    series = read(snapshot(web(mean=np.array([[2.8e-45, 1.0], [-1e-40, 2e-38]]))))
    assert by_entity(series[CPU]) == {"init": 0.0, "nginx": 0.0}
    assert by_entity(series["shardpulse_processes_memory_resident_bytes"])["nginx"] > 0.0


def test_prepared_labels_follow_names_and_rows() -> None:
    prepared = Prepared()
    first = read(snapshot(web()), prepared=prepared)
    assert first == read(snapshot(web()), prepared=prepared)
    renamed = block("web", "processes", [process("web", 1, "init"), process("web", 2, "nginx-2")])
    assert set(by_entity(read(snapshot(renamed), prepared=prepared)[CPU])) == {"init", "nginx-2"}
    fewer = web()
    fewer.use_names(renamed.names, None)
    fewer._ids = fewer.raw_ids[8:]
    fewer.data = web(mean=np.ones((2, 2))).data
    rows = [prepared.rows(one, "web").texts for one in (renamed, fewer)]
    assert rows[0][1:] == rows[1]
    other = block("db", "processes", [process("db", 9, "100% sure")])
    assert set(by_entity(read(snapshot(other), prepared=prepared)[CPU])) == {"100% sure"}
    assert len(prepared._rows) == 1


def test_the_classic_format_tells_the_same() -> None:
    found = snapshot(web(exceptions=[(0, codes.RANGE, 1.0)]), block("web", "host", [host_entity("web")], HOST.metrics))
    text = render(found, None, ALL, CLASSIC).decode()
    assert "# EOF" not in text
    assert "# UNIT" not in text
    assert "# TYPE shardpulse_set_lost_samples_total counter\n" in text
    assert "# TYPE shardpulse_build_info gauge\n" in text
    old = {(s.name, *s.labels.items()): s.value for family in classic(text) for s in family.samples}
    new = {
        (s.name, *s.labels.items()): s.value
        for family in openmetrics.text_string_to_metric_families(render(found, None, ALL).decode())
        for s in family.samples
    }
    assert old == new


def test_openmetrics_ends_with_eof_and_declares_units() -> None:
    text = render(snapshot(web())).decode()
    assert text.endswith("\n# EOF\n")
    assert text.startswith("# TYPE shardpulse_build info\n")
    assert "# UNIT shardpulse_processes_memory_resident_bytes bytes\n" in text
    assert "\n\n" not in text


def test_chunks_are_the_answer_in_pieces() -> None:
    found = snapshot(web(), block("db", "processes", [process("db", 1, "init")]))
    for form in (OPENMETRICS, CLASSIC):
        assert "".join(chunks(found, form=form)).encode() == render(found, form=form)


@pytest.mark.parametrize("table", [HOST, PROCESSES, VMS], ids=lambda table: table.name)
def test_every_metric_of_the_tables_has_a_name_of_its_own(table) -> None:
    rows = [host_entity("web")] if table is HOST else [process("web", 1, "init"), process("web", 2, "nginx")]
    series = read(snapshot(block("web", table.name, rows, table.metrics)), ALL)
    own = [name for name in series if name.startswith(f"shardpulse_{table.name}_")]
    assert len(own) == 4 * len(table.metrics)
    assert not [name for name in own if "U__" in name]


def test_help_says_the_unit_that_the_name_does_not() -> None:
    text = render(snapshot(block("web", "processes", [process("web", 1, "a")], PROCESSES.metrics))).decode()
    assert "in cores; moving average of the valid samples\n" in text
    odd = (Metric("x", "parsecs", "gauge", 0, 1, 'a "quoted"\nhelp\\'),)
    text = render(snapshot(block("web", "processes", [process("web", 1, "a")], odd))).decode()
    assert '# HELP shardpulse_processes_x a \\"quoted\\"\\nhelp\\\\, in parsecs; moving' in text


def test_many_hosts_are_told_in_batches_as_each_would_be_alone() -> None:
    names = [f"host-{number}" for number in range(600)]
    blocks = [
        block(name, "host", [host_entity(name)], mean=np.array([[NAN if number % 100 == 7 else number, 1.0]]))
        for number, name in enumerate(names)
    ]
    series = read(snapshot(*blocks))["shardpulse_host_cpu_ratio"]
    assert series == {(name,): number for number, name in enumerate(names) if number % 100 != 7}


def test_hosts_with_other_columns_share_the_families_that_they_have() -> None:
    wide = block("wide", "host", [host_entity("wide")], HOST.metrics)
    narrow = block("narrow", "host", [host_entity("narrow")], HOST.metrics[3:5])
    series = read(snapshot(wide, narrow))
    assert series["shardpulse_host_memory_free_bytes"] == {("narrow",): 0.0, ("wide",): 3.0}
    assert set(series["shardpulse_host_tasks_runnable"]) == {("wide",)}


def test_the_own_metrics_of_a_late_host_say_so_by_name() -> None:
    own = block("web", "host", [host_entity("web")], HOST.metrics)
    rest = web()
    for one in (own, rest):
        one.has_values, one.state, one.age_seconds = False, LATE, 3.5
    series = read(snapshot(own, rest))
    assert "shardpulse_sample_invalid" not in series
    late = {labels for labels in series["shardpulse_sample_without_value"] if "LATE" in labels}
    assert len(late) == len(HOST.metrics)
    assert "shardpulse_sample_stale_seconds" not in series
