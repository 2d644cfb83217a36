"""The series of the paper: points are kept and not measured twice, resources are those of a process tree, and a small
run of a real figure writes everything that it promises."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from acquisition.errors import ShardError
from experiments.paper import __main__ as paper
from experiments.paper import run, sampler
from experiments.paper.figure import Extent, Point, Row
from experiments.paper.figures import FIGURES
from tests.support.waiting import eventually

EXTENT = Extent(1.0, True)


def counted(name: str, measured: list[str], fails: bool = False) -> Point:
    def measure(_extent: Extent, directory: Path) -> Sequence[Row]:
        assert directory.is_dir()
        measured.append(name)
        if fails:
            raise ShardError("no shard")
        return [Row("baseline", "database", "cpu", "ratio of one core", 1.0, 0.25)]

    return Point(name, {"h": 4.0}, measure)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    measured: list[str] = []
    first, second = counted("first", measured), counted("second", measured, fails=True)
    assert run.measure([first, second], EXTENT, tmp_path).failures == ["second: no shard"]
    again = run.measure([first, counted("second", measured)], EXTENT, tmp_path)
    assert measured == ["first", "second", "second"]
    assert again.failures == []
    assert again.of([first]).of("baseline", quantity="cpu", h=4).over("h") == {4.0: [0.25]}
    assert not list(tmp_path.glob("*.part"))


def test_points_of_other_options_are_not_reused(tmp_path: Path) -> None:
    assert run.kept_in(tmp_path, EXTENT) == run.kept_in(tmp_path, EXTENT)
    assert run.kept_in(tmp_path, EXTENT) != run.kept_in(tmp_path, EXTENT._replace(seconds=2.0))


def test_names_determine_points() -> None:
    for extent in (EXTENT, Extent(60.0, False)):
        named: dict[str, dict[str, float]] = {}
        for point in (point for figure in FIGURES for point in figure.points(extent)):
            assert named.setdefault(point.name, dict(point.parameters)) == point.parameters


@pytest.mark.needs("ss")
def test_sampler_counts_the_whole_tree_and_itself() -> None:
    spin = "import time; end = time.monotonic() + 30\nwhile time.monotonic() < end: pass"
    wait = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}])"
    with subprocess.Popen([sys.executable, "-c", wait], start_new_session=True) as parent:
        try:
            eventually(lambda: Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text() != "")
            rows = sampler.watch("baseline", {"probe": [parent.pid]}, 1.0)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
    found = {(row.role, row.quantity): row for row in rows}
    assert found["probe", "cpu"].value > 0.02, "only the child is busy"
    assert found["probe", "memory"].value * sampler.MEMORY_BYTES > found["probe", "pss"].value
    assert 0 < found["sampler", "cpu"].value < 1


@pytest.mark.few
@pytest.mark.needs("ss")
def test_small_run_writes_data_plots_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--out", str(tmp_path), "--only", "fig2", "--quick", "--seconds-per-point", "2", "--json"]
    assert paper.main(options) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["figures"]["fig2"][0]["shardpulse"] != "not measured"
    assert {"fig2.csv", "fig2.png", "fig2.svg", "report.html"} <= {path.name for path in tmp_path.iterdir()}
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert paper.main(options) == 0
    assert "1 of 1 points were measured before" in capsys.readouterr().err
