"""A short run of everything: the pipeline of the experiment works from load to report."""

import json

import numpy as np
import pytest

from acquisition.errors import DataError, UsageError
from experiments.decisions import __main__ as program
from experiments.decisions import frozen, recording, report, training
from experiments.decisions.detection import detect, observe
from experiments.decisions.recording import Recording
from experiments.decisions.synthetic import Size, build
from experiments.decisions.truth import judge
from experiments.decisions.watch import MORE_NOISE_SEEDS, RAW, TEST_SEEDS, TRAINING_SEEDS, named
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


@pytest.mark.parametrize(
    "options",
    [["--hosts", "0"], ["--ticks", "10"], ["--watch", "hourly"], ["--rule", "dice"], ["--record", "x", "--slots", "0"]],
)
def test_wrong_options(options):
    with pytest.raises(UsageError):
        program.parse(options)


def test_an_absent_file_is_told(capsys):
    assert program.main(["--traces", "/nowhere"]) == 66
    assert program.main(["--recording", "/nowhere"]) == 66
    assert "/nowhere" in capsys.readouterr().err


def test_training_takes_the_fastest_of_the_quiet_and_does_not_take_the_deaf():
    choice = training.Choice
    quiet, fast, deaf = choice("quiet", 0, 6.0, 400.0), choice("fast", 9, 4.0, 400.0), choice("deaf", 0, 720.0, 400.0)
    assert training.best([fast, deaf, quiet]).parameters == "quiet"
    assert training.best([choice("loud", 100, 5.0, 400.0), deaf]).parameters == "loud"


def test_an_average_carries_an_alarm_that_raw_values_drop():
    series = observe(build("noisy step", 101, Size(10, 1, 1300)))
    found = frozen.read()
    raw, smoothed = (
        judge(detect(series, watch, "threshold", [found[watch.name, "threshold"]])[0], series.level)
        for watch in (RAW, named(program.campaign.WATCH))
    )
    assert raw.missed == smoothed.missed == 0
    assert smoothed.alarms < 0.5 * raw.alarms


def test_training_chooses_a_setting():
    lessons = training.lessons(Size(1, 1, 1300))
    choice = training.train(named("10 s"), "threshold", lessons)
    assert choice is not None
    assert choice.host_hours == pytest.approx(len(TRAINING_SEEDS) * 1300 / 3600)
    assert training.train(RAW, "cusum", lessons) is None  # there is no average that it could start from
