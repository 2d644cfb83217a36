"""``shardpulse top`` in a pipe, on what the filter left in real shards: table, lines, JSON, and what is wrong."""

from __future__ import annotations

import json
import math
import uuid
from typing import Any

import numpy as np
import pytest

from acquisition.cli import main as shardpulse
from acquisition.link.cluster import Cluster
from acquisition.model import codes
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.wire.position import Position
from acquisition.wire.table import Entity
from filters.top.listings.hosts import list_hosts
from tests.support.scene import Scene, entities, record
from tests.support.still_clock import this_tick

Capture = pytest.CaptureFixture[str]
NAMES = ("tasks_runnable", "cpu_idle_ratio", "cpu_iowait_ratio", "memory_total_bytes", "memory_available_bytes")


def put_host(
    scene: Scene, now: int, host: str, values: list[float], marks: list[tuple[int, int, float]] | None = None
) -> None:
    number, set_id = host_id(host), resource_set_id("host")
    names = (*NAMES, "hugepages_available_bytes")[: len(values)]
    metrics = tuple(Metric(name, "ratio", "gauge", 0.0, math.inf, "") for name in names)
    (row,) = entities(host, [host])
    for tick in (now - 2, now - 1, now):
        data = record(
            number, set_id, [row.id], np.array([values]), tick, schema=schema_hash(metrics), exceptions=marks or []
        )
        scene.record(host, "host", data, tick)
    scene.position(host, "host", Position(5, now, now, now + 0.5, 1.0, applied=10))
    scene.names(host, "host", (row,), metrics)


@pytest.fixture
def scene(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Five hosts: two current, one without CPU figures, one down, one whose own metrics are not sampled."""
    scene, now = Scene(cluster), this_tick(monkeypatch)
    put_host(scene, now, "busy", [3, 0.04, 0.01, 100, 10])
    put_host(scene, now, "calm", [1, 0.80, 0.10, 100, 75], [(0, codes.RANGE, 2.0)])
    put_host(scene, now, "dark", [1, math.nan, 0.1, 100, 50], [(1, codes.MISSING, math.inf)])
    scene.host("gone", [now - 60], resource_set="host", names=["gone"])
    scene.host("partial", [now - 2, now - 1, now], names=["init", "web server"])
    return scene


@pytest.fixture
def addresses(shards: Shards) -> str:
    return ",".join(map(str, shards.addresses))


def top(addresses: str, *arguments: str) -> int:
    return shardpulse(["top", "--shards", addresses, *arguments])


def test_a_table_of_complete_lines(scene: Scene, addresses: str, capsys: Capture) -> None:
    assert top(addresses) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    head, *lines = out.splitlines()
    assert head.split()[:4] == ["HOST", "CPU", "±DEV", "TREND/S"] or head.split()[2] == "~DEV"
    assert [line.split()[0] for line in lines] == ["busy", "calm", "dark", "gone", "partial"]
    assert lines[0].split()[1] == "95.0%"
    assert lines[0].split()[5] == "90.0%", "memory used"
    assert lines[1].split()[6] == "1", "one sample failed a check"
    assert "missing" in lines[2]
    assert "MISSING" in lines[2]
    assert "down: " in lines[3]
    assert lines[4].endswith("current: its host metrics are not sampled")
    for line in lines[2:]:
        assert "0.0" not in line.replace("0.00 s", "").split("s")[0], "what is missing is not idle"


def test_columns_equal_the_rows_of_the_snapshot(scene: Scene, shards: Shards) -> None:
    with SnapshotReader(shards.connect()) as reader:
        snapshot = reader.coherent()
    found = list_hosts(snapshot)
    rows = {(row.host, row.metric): row for row in snapshot.rows(resource_set="host")}
    for i, host in enumerate(found.names):
        idle, iowait = rows.get((host, "cpu_idle_ratio")), rows.get((host, "cpu_iowait_ratio"))
        if idle is None or iowait is None or idle.mean is None or iowait.mean is None:
            assert math.isnan(found.mean[i])
            continue
        assert found.mean[i] == pytest.approx(1 - idle.mean - iowait.mean)
        assert found.last[i] == pytest.approx(1 - (idle.last or 0) - (iowait.last or 0))
        assert found.deviation[i] == pytest.approx((idle.deviation or 0) + (iowait.deviation or 0))
        assert found.trend[i] == pytest.approx(-(idle.trend or 0) - (iowait.trend or 0))
        assert codes.name_of(int(found.codes[i])) == idle.validity
        assert found.age[i] == pytest.approx(idle.age_seconds)


def test_free_huge_pages_are_not_used_memory(cluster: Cluster, shards: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    scene, now = Scene(cluster), this_tick(monkeypatch)
    put_host(scene, now, "old", [1, 0.80, 0.10, 100, 10])
    put_host(scene, now, "none", [1, 0.80, 0.10, 100, 10, math.nan], [(5, codes.MISSING, math.inf)])
    put_host(scene, now, "pool", [1, 0.80, 0.10, 100, 10, 60])
    with SnapshotReader(shards.connect()) as reader:
        found = list_hosts(reader.coherent())
    assert dict(zip(found.names, found.memory.tolist(), strict=True)) == pytest.approx(
        {"none": 0.9, "old": 0.9, "pool": 0.3}
    )


def test_a_narrowed_reading_says_what_it_did_not_read(scene: Scene, shards: Shards) -> None:
    with SnapshotReader(shards.connect()) as reader:
        host_set = resource_set_id("host")
        snapshot = reader.coherent(lambda host, resource_set: resource_set == host_set)
        assert {block.resource_set for block in snapshot.blocks} == {"host"}
        assert [(block.host_id, block.has_values) for block in snapshot.unread] == [(host_id("partial"), False)]
        assert snapshot.totals == reader.coherent().totals


def test_json(scene: Scene, addresses: str, capsys: Capture) -> None:
    assert top(addresses, "--json", "--filter", "a*") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == []
    assert top(addresses, "--json", "--sort", "name", "--top", "4") == 0
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    rows: dict[str, dict[str, Any]] = {row["name"]: row for row in answer["rows"]}
    assert list(rows) == ["busy", "calm", "dark", "gone"]
    assert answer["hidden"] == 1
    assert rows["busy"]["mean"] == pytest.approx(0.95)
    assert rows["busy"]["memory"] == pytest.approx(0.9)
    assert (rows["dark"]["mean"], rows["dark"]["validity"], rows["dark"]["missing"]) == (None, "MISSING", 1)
    assert (rows["gone"]["state"], rows["gone"]["mean"], rows["gone"]["memory"]) == ("down", None, None)
    assert (rows["gone"]["invalid"], rows["gone"]["missing"]) == (None, None)
    assert rows["calm"]["invalid"] == 1
    assert len(answer["shards"]) == 2


def test_lines_stand_alone(scene: Scene, addresses: str, capsys: Capture) -> None:
    assert top(addresses, "--lines", "--count", "2", "--interval", "0.2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:7]] == ["host", "host", "host", "down", "current", "shard", "shard"]
    assert lines[0].startswith("host busy tick ")
    assert "smoothed 95.0% VALID age " in lines[0]
    assert "smoothed missing MISSING" in lines[2]


def test_one_host(scene: Scene, addresses: str, capsys: Capture) -> None:
    assert top(addresses, "--host", "partial") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "web", "init"]
    assert top(addresses, "--host", f"{host_id('busy'):016x}", "--json") == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]] == list(NAMES)
    assert top(addresses, "--host", "bussy") == 65
    assert "unknown host 'bussy'; did you mean busy?" in capsys.readouterr().err


def test_a_vm_that_migrates_has_one_row_with_figures(
    cluster: Cluster, addresses: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, now, vm = Scene(cluster), this_tick(monkeypatch), str(uuid.uuid4())
    columns = (Metric("cpu_ratio", "cores", "counter", 0.0, math.inf, ""),)
    for host, epoch, busy in (("source", "1 100", 0.8), ("target", "1 900", 0.0)):
        row = Entity(entity_id("vm", vm, f"{host} {epoch}"), "vm", vm, epoch, "guest")
        for tick in (now - 2, now - 1, now):
            values, number = np.array([[busy]]), host_id(host)
            data = record(number, resource_set_id("vms"), [row.id], values, tick, schema=schema_hash(columns))
            scene.record(host, "vms", data, tick)
        scene.position(host, "vms", Position(5, now, now, now + 0.5, 1.0))
        scene.names(host, "vms", (row,), columns)
    found = {}
    for host in ("source", "target"):
        assert top(addresses, "--host", host, "--json") == 0
        (found[host],) = json.loads(capsys.readouterr().out)["rows"]
    figures = [row for row in found.values() if row["mean"] is not None]
    assert len(figures) == 1
    (shadow,) = (row for row in found.values() if row["mean"] is None)
    assert shadow["reason"].startswith("migrating, its place is ")


def test_no_samples_yet(cluster: Cluster, addresses: str, capsys: Capture) -> None:
    assert top(addresses) == 75
    assert "are `shardpulse probe` and `shardpulse filter` running?" in capsys.readouterr().err
    assert top(addresses, "--json") == 75
    assert json.loads(capsys.readouterr().out)["rows"] == []


@pytest.mark.parametrize("arguments", ["--interval 0", "--top -1", "--sort x", "--once --json", "--oops"])
def test_wrong_usage(arguments: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as error:
        shardpulse(["top", *arguments.split()])
    assert error.value.code == 2
    assert "usage: shardpulse top" in capsys.readouterr().err
