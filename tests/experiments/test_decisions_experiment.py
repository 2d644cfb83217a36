"""A short run of everything: the pipeline of the experiment works from load to report."""

import json

import numpy as np
import pytest

from acquisition.errors import DataError
from experiments.decisions import __main__ as program
from experiments.decisions import recording, report
from experiments.decisions.recording import Recording
from experiments.decisions.watch import MORE_NOISE_SEEDS, TEST_SEEDS, TRAINING_SEEDS
from experiments.harness import outcome
from tests.support import FIXTURES

FIXTURE = FIXTURES / "planetlab" / "20110303"


@pytest.fixture
def recorded(tmp_path):
    slots = np.zeros((120, 2), np.float32)
    slots[30:80, 0], slots[60:100, 1] = 0.9, 0.4
    path = tmp_path / "seconds.csv"
    recording.write(path, Recording({"cores": "2"}, slots.sum(1) / 2, np.ones(120, bool), slots))
    return path


def test_a_short_campaign_fills_the_report(tmp_path, monkeypatch, capsys, recorded):
    page = tmp_path / "smoothing.md"
    page.write_text(report.PAGE.read_text())
    monkeypatch.setattr(report.write, "__defaults__", (page,))
    monkeypatch.setattr(outcome, "RESULTS", tmp_path)
    monkeypatch.setattr(program.campaign, "CORRELATIONS", (0.5,))
    default = program.campaign.WATCH
    options = ["--hosts", "6", "--vms", "5", "--ticks", "1300", "--traces", str(FIXTURE), "--recording", str(recorded)]
    chosen = ["--watch", "10 s", "--watch", "raw 1 Hz", "--watch", default, "--rule", "threshold"]
    code = program.main([*options, *chosen, "--seed", "101", "--save", "short", "--report", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == (1 if document["failures"] else 0)
    kept = json.loads((tmp_path / "short.json").read_text())
    assert (kept, report.tables(kept)) == (report.quoted(document), report.tables(document))
    detected = {(row["load"], row["watch"], row["rule"]) for row in document["detection"]}
    assert {("noise", default, "threshold"), ("day 20110303", "10 s", "threshold")} <= detected
    assert ("recorded", "raw 1 Hz", "threshold") in detected
    steps = document["target"][f"{default}: step"]["first seed"]
    assert steps["overloads"] == 6
    assert steps["missed"] == 0
    acted = {(row["load"], row["rule"]): row for row in document["control"]}
    assert acted["mixed", "oracle"]["overload_seconds_per_host_hour"] > 0
    for name in ("step", "detection", "control"):
        assert (tmp_path / f"short-{name}.png").stat().st_size > 5_000
    assert "| 20110303 |" in page.read_text()


def test_page_quotes_the_committed_result():
    page = report.PAGE.read_text()
    for name, table in report.tables(json.loads((outcome.RESULTS / "decisions.json").read_text())).items():
        assert table in page, name


def test_a_page_without_a_place_for_a_table_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing")
    document = {"days": [], "default": {}, "target": {}, "detection": [], "correlation": [], "control": []}
    with pytest.raises(DataError, match="target"):
        report.write(document, page)


def test_training_and_test_never_share_a_seed(capsys):
    assert not {*TRAINING_SEEDS, *MORE_NOISE_SEEDS} & set(TEST_SEEDS)
    assert program.main(["--seed", "1"]) == 2
    assert "training seed" in capsys.readouterr().err


def test_an_absent_file_is_told(capsys):
    assert program.main(["--traces", "/nowhere"]) == 66
    assert program.main(["--recording", "/nowhere"]) == 66
    assert "/nowhere" in capsys.readouterr().err
