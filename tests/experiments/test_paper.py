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
from matplotlib.figure import Figure as Plot

from acquisition.errors import EXIT_UNAVAILABLE, ShardError
from experiments.paper import __main__ as paper
from experiments.paper import hosts, run, sampler
from experiments.paper.figure import SYSTEMS, Extent, Point, Record, Records, Row
from experiments.paper.figures import FIGURES
from experiments.processes import needs
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


def test_missing_mariadb_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(needs.shutil, "which", lambda name, path=None: None if name == "mariadbd" else name)
    assert paper.main(["--only", "fig2", "--out", str(tmp_path / "out")]) == EXIT_UNAVAILABLE
    assert capsys.readouterr().err == "paper: cannot start: there is no mariadbd: apt install mariadb-server-core\n"
    assert not (tmp_path / "out").exists()


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
            rows += sampler.pss("baseline", {"probe": [parent.pid]}, 1.0)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
    found = {(row.role, row.quantity): row for row in rows}
    assert found["probe", "cpu"].value > 0.02, "only the child is busy"
    assert found["probe", "memory"].value * sampler.MEMORY_BYTES > found["probe", "pss"].value
    assert 0 < found["sampler", "cpu"].value < 1


@pytest.mark.few
@pytest.mark.needs("ss", "mariadbd", "vmstat")
def test_small_run_writes_data_plots_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--out", str(tmp_path), "--only", "fig2", "--quick", "--seconds-per-point", "2", "--json"]
    assert paper.main(options) == 0
    document = json.loads(capsys.readouterr().out)
    cpu, memory, _network = document["figures"]["fig2"]
    for system in SYSTEMS:
        assert 0 < float(cpu[system]) < 1, "ratio of one core"
        assert 0 < float(memory[system]) < 1, "ratio of 2 GiB"
    assert document["versions"]["mariadbd"]
    assert {"fig2.csv", "fig2.png", "fig2.svg", "report.html", "report.json"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert paper.main(options) == 0
    assert "2 of 2 points were measured before" in capsys.readouterr().err


def records(system: str, quantity: str, values: dict[int, float]) -> list[Record]:
    row = Row(system, "database", quantity, "", 1.0, 0.0)
    return [Record(f"h{hosts}", {"h": hosts}, row._replace(value=value)) for hosts, value in values.items()]


def test_first_bottleneck_is_fitted_from_stored_measurements() -> None:
    known = Records(
        [
            *records("baseline", "memory", {h: h / 250 for h in (1, 16, 32, 64)}),
            *records("baseline", "cpu", {h: h / 330 for h in (1, 16, 32, 64)}),
            *records("baseline", "kept_up", {1: 1.0, 16: 1.0, 32: 0.99, 64: 0.5}),
        ]
    )
    assert hosts.bottlenecks(hosts.parabolas(known, "baseline")) == ["memory", "cpu"]
    assert hosts.kept_up(known, "baseline") == 32
    slow = Row("baseline", "probe", "offered", "", 1.0, 0.5)
    assert hosts.kept_up(Records([*known.all, Record("h32", {"h": 32}, slow)]), "baseline") == 16
    assert hosts.kept_up(known, "shardpulse") is None


def test_every_figure_says_so_where_nothing_was_measured() -> None:
    for figure in FIGURES:
        nothing = Records()
        figure.draw(Plot(), nothing)
        assert all(finding.reproduced is not True and not finding.met for finding in figure.findings(nothing))
        assert len(figure.says(nothing)) == 2
