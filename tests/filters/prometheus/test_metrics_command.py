"""``shardpulse metrics`` on real shards."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as classic

from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_CANNOT_CREATE, EXIT_OK, EXIT_TEMPORARY, EXIT_UNAVAILABLE, EXIT_USAGE
from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from tests.support.scene import Scene
from tests.support.still_clock import this_tick

Capture = pytest.CaptureFixture[str]


def run(shards: Shards, *options: str) -> int:
    return shardpulse(["metrics", "--shards", ",".join(str(each) for each in shards.addresses), *options])


@pytest.fixture
def scene(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """One host with two processes; ticks of now and around it, so that a coherent reading finds one."""
    made, now = Scene(cluster), this_tick(monkeypatch)
    made.host("web", range(now - 2, now + 1))
    return made


@pytest.mark.usefixtures("scene")
def test_openmetrics_by_default(shards: Shards, capsys: Capture) -> None:
    assert run(shards, "--latest") == EXIT_OK
    families = {family.name: family for family in openmetrics.text_string_to_metric_families(capsys.readouterr().out)}
    assert len(families["shardpulse_processes_cpu_ratio"].samples) == 2
    assert {sample.value for sample in families["shardpulse_shard_up"].samples} == {1}
    assert families["shardpulse_snapshot"].samples[0].labels == {"reading": "latest"}


@pytest.mark.usefixtures("scene")
def test_limited_and_classic_into_a_file(shards: Shards, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "shardpulse.prom"
    path.write_text("old")
    assert run(shards, "--hosts-only", "--classic", "--output", str(path)) == EXIT_OK
    names = {family.name for family in classic(path.read_text())}
    assert "shardpulse_set_age_seconds" in names
    assert "shardpulse_processes_cpu_ratio" not in names
    assert capsys.readouterr().out == ""
    assert path.stat().st_mode & 0o777 == 0o644
    assert [each.name for each in tmp_path.iterdir()] == ["shardpulse.prom"]


@pytest.mark.usefixtures("scene")
def test_figures_of_entities(shards: Shards, capsys: Capture) -> None:
    assert run(shards, "--latest", "--figure", "mean", "last") == EXIT_OK
    out = capsys.readouterr().out
    assert "\nshardpulse_processes_cpu_last_ratio{" in out
    assert "shardpulse_processes_cpu_deviation_ratio" not in out


def test_without_samples_the_pipeline_is_still_told_about(cluster: Cluster, shards: Shards, capsys: Capture) -> None:
    assert run(shards) == EXIT_TEMPORARY
    assert "\nshardpulse_filter_workers 0\n" in capsys.readouterr().out


def test_what_goes_wrong_is_said(shards: Shards, tmp_path: Path, capsys: Capture) -> None:
    assert run(shards, "--output", str(tmp_path / "no" / "file")) == EXIT_CANNOT_CREATE
    assert "--output" in capsys.readouterr().err
    assert shardpulse(["metrics", "--shards", "127.0.0.1:1"]) == EXIT_UNAVAILABLE
    with pytest.raises(SystemExit) as stopped:
        run(shards, "--figure", "median")
    assert stopped.value.code == EXIT_USAGE


@pytest.mark.parametrize("skew", [90, -30])
def test_a_skewed_clock_is_told_where_the_host_has_no_values(
    cluster: Cluster, shards: Shards, capsys: Capture, monkeypatch: pytest.MonkeyPatch, skew: int
) -> None:
    """What ShardpulseClockSkew asks for: a coherent reading has no samples of such a host, but knows its clock."""
    now = this_tick(monkeypatch)
    Scene(cluster).host("web", range(now + skew - 2, now + skew + 1), lag=-skew + 0.02)
    run(shards)
    families = {family.name: family for family in openmetrics.text_string_to_metric_families(capsys.readouterr().out)}
    assert "shardpulse_processes_cpu_ratio" not in families
    (offset,) = families["shardpulse_set_clock_offset_seconds"].samples
    assert offset.value == pytest.approx(skew, abs=0.1)
    assert families["shardpulse_set_current"].samples[0].value == 0
