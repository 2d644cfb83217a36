"""The table of figures: what it declares, how it compares, what it keeps, and the pages that are written from it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from acquisition.errors import EXIT_FAILURE, EXIT_OK, EXIT_USAGE
from experiments.__main__ import programs
from experiments.figures import __main__ as figures
from experiments.figures import committed, judge, pages
from experiments.figures.kinds import MORE, Bare, Figure, Inside, Row, find
from experiments.figures.measure import Measured, Number, measure, read
from experiments.figures.table import LONG, ROWS
from experiments.harness import machine
from tests.support import ROOT

XADD = Bare("bare XADD", "xadd", "samples_per_second", 5, 3)
RATE = Figure("rate", "{:.1f} thousand/s", XADD, MORE, 1e-3)
COST = Figure("cpu.a + cpu.b", "{:.2f} s", Inside("that of a", "cpu.a"))
ROW = Row(
    "small", "a small run", "ingest", "--hosts 5", "--seconds 1", "--seconds 9", (RATE, COST), ("experiments",), True
)
ANSWER: dict[str, Any] = {"rate": 5000, "cpu": {"a": 0.5, "b": 1.0}, "failures": []}
MEASURED = Measured(ROW, 1.0, (Number(5000, 10000, 0.5), Number(1.5, 0.5, 3.0)))


def test_a_number_is_found_by_its_path_and_what_is_no_number_is_none() -> None:
    assert find(ANSWER, "cpu.a + cpu.b") == 1.5
    for path in ("cpu", "cpu.c", "rate.x", "failures", "cpu.a + cpu.c"):
        assert find(ANSWER, path) is None
    assert find({"passed": True}, "passed") is None


def test_a_figure_is_read_with_the_ratio_to_its_reference() -> None:
    assert read(RATE, ANSWER, {XADD: 10000.0}) == Number(5000, 10000.0, 0.5)
    assert read(COST, ANSWER, {}) == Number(1.5, 0.5, 3.0)
    assert read(COST._replace(reference=Inside("itself")), ANSWER, {}) == Number(1.5, None, 1.5)
    assert read(COST._replace(reference=None), ANSWER, {}) == Number(1.5)
    assert read(COST._replace(reference=Inside("nothing", "no.where")), ANSWER, {}) == Number(1.5, None, None)


@pytest.mark.parametrize(
    ("now", "before", "more", "verdict"),
    [
        (1.0, 1.0, False, "same"),
        (1.24, 1.0, False, "same"),
        (1.26, 1.0, False, "worse"),
        (0.79, 1.0, False, "better"),
        (0.79, 1.0, True, "worse"),
        (0.81, 1.0, True, "same"),
        (1.3, 1.0, True, "better"),
        (0.0, 1.0, True, "worse"),
    ],
)
def test_a_quarter_to_either_side_is_the_same(now: float, before: float, more: bool, verdict: str) -> None:
    assert judge.verdict_of(judge.compare(now, before, more)) == verdict


def test_a_row_is_judged_figure_by_figure() -> None:
    rate, cost = judge.judge(MEASURED, [Number(1, 1, 0.8), Number(1, 1, 2.9)])
    assert (rate.verdict, rate.wrong, rate.shown) == ("worse", True, "5.0 thousand/s")
    assert (cost.verdict, cost.wrong) == ("same", False)
    assert [line.verdict for line in judge.judge(MEASURED, [])] == ["new", "new"]
    absent = MEASURED._replace(numbers=(Number(None), Number(1.5, None, None)))
    assert [line.verdict for line in judge.judge(absent, [])] == ["not measured", "not measured"]
    (skipped,) = judge.judge(Measured(ROW, 0.1, skipped="there is no wrk"), [])
    assert (skipped.verdict, skipped.wrong, skipped.note) == ("skipped", False, "there is no wrk")
    (failed,) = judge.judge(Measured(ROW, 0.1, failed="7 samples were lost"), [])
    assert (failed.verdict, failed.wrong) == ("failed", True)


def test_rows_name_programs_existing_paths_and_known_figures() -> None:
    rows = (*ROWS, *LONG)
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.program in programs()
        assert [path for path in row.depends if not (ROOT / path).exists()] == []
        assert all(figure.show.format(1.0) for figure in row.figures)


def test_a_real_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    passed = Bare("a numpy pass", "numpy", "samples_per_second", 5, 3)
    smoothed = Figure("samples_smoothed_per_second", "{:.0f}", XADD, MORE)
    spent = "cpu_seconds_per_million_samples"
    row = ROW._replace(
        arguments="--hosts 5 --entities 5 --metrics 3 --rate 20 --overload",
        short="--seconds 1 --warmup 0.5",
        figures=(smoothed, smoothed._replace(reference=passed), Figure(f"{spent}.shards + {spent}.filter", "{:.1f}")),
    )
    lacking = row._replace(name="lacking", program="serve_load", arguments="", short="--seconds 1", figures=())
    broken = row._replace(name="broken", arguments="--no-such-option", figures=())
    monkeypatch.setattr(machine, "changed", lambda: False)
    found, failed = measure([row, broken], False)
    assert found.failed == found.skipped == ""
    assert all(number.value for number in found.numbers)
    assert 0 < (found.numbers[0].ratio or 0) < 1
    assert "no-such-option" in failed.failed
    monkeypatch.setenv("PATH", str(tmp_path))
    (skipped,) = measure([lacking], False)
    assert "apt install wrk" in skipped.skipped


def test_what_is_worse_is_measured_again_and_what_is_measured_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, answers = tmp_path / "figures.json", [MEASURED]
    worse = MEASURED._replace(numbers=(Number(1000, 10000, 0.1), Number(1.5, 0.5, 3.0)))
    monkeypatch.setattr(committed, "FILE", path)
    monkeypatch.setattr(figures, "measure", lambda rows, full: iter([answers.pop(0)]))
    monkeypatch.setattr(figures, "ROWS", (ROW,))
    monkeypatch.setattr(committed, "stale", lambda entry, row: False)
    monkeypatch.setattr(machine, "changed", lambda *_: False)
    assert figures.main(["--save", "--only", "small"]) == EXIT_OK
    kept = json.loads(path.read_text())["small"]["short"]
    assert kept["figures"]["rate"] == {"value": 5000, "reference": 10000, "ratio": 0.5}
    assert kept["command"] == "python -m experiments.ingest --hosts 5 --seconds 1"
    assert {"commit", "date", "machine"} <= set(kept)
    answers[:] = [worse, MEASURED]
    assert figures.main(["--only", "small"]) == EXIT_OK
    assert answers == []
    answers[:] = [worse, worse]
    capsys.readouterr()
    assert figures.main(["--only", "small", "--json"]) == EXIT_FAILURE
    document = json.loads(capsys.readouterr().out)
    assert [line["verdict"] for line in document["lines"]] == ["worse", "same"]
    assert figures.main(["--list", "--only", "small"]) == EXIT_OK
    assert "a small run" in capsys.readouterr().out


def test_a_changed_checkout_is_refused_and_never_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "changed", lambda *_: True)
    assert figures.main([]) == EXIT_USAGE
    assert "the checkout has changes" in capsys.readouterr().err
    assert figures.main(["--changed", "--save"]) == EXIT_USAGE
    assert figures.main(["--only", "speed"]) == EXIT_USAGE
    assert "there is no 'speed'" in capsys.readouterr().err


def test_figures_are_stale_once_what_they_depend_on_has_changed(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    def commit(path: str) -> str:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        with (tmp_path / path).open("a") as file:
            file.write("x\n")
        git("add", ".")
        git("commit", "-q", "-m", path)
        return git("rev-parse", "HEAD").strip()

    assert not machine.changed_since("HEAD", ["a"], tmp_path)
    git("init", "-q")
    first = commit("a/one.py")
    assert not machine.changed_since(first, ["a"], tmp_path)
    commit("b/two.py")
    assert not machine.changed_since(first, ["a"], tmp_path)
    assert machine.changed_since(first, ["a", "b"], tmp_path)
    assert machine.changed_since("0" * 40, ["a", "b"], tmp_path), "a commit that nobody can look at vouches for nothing"
    git("clone", "-q", "--depth", "1", tmp_path.as_uri(), str(tmp_path / "part"))
    assert not machine.changed_since(first, ["a", "b"], tmp_path / "part")
    shutil.rmtree(tmp_path / "part")
    assert not machine.changed(tmp_path)
    (tmp_path / "experiments/results").mkdir(parents=True)
    (tmp_path / "experiments/results/figures.json").write_text("{}")
    (tmp_path / "README.md").write_text("figures")
    assert not machine.changed(tmp_path)
    (tmp_path / "c.py").write_text("")
    assert machine.changed(tmp_path)
    assert machine.commit(tmp_path).endswith("+changes")


def entry(commit: str, date: str, rate: float) -> dict[str, Any]:
    found = {"rate": Number(rate, 10000, rate / 10000)._asdict(), "cpu.a + cpu.b": Number(1.5, 0.5, 3.0)._asdict()}
    where = {"cpu": "a CPU", "cores": 2, "memory_bytes": 2**34, "kernel": "6.1", "system": "Debian", "python": "3.11"}
    return {"commit": commit, "date": date, "command": "python -m x", "machine": where, "figures": found}


def test_table_quotes_newest_entry_and_marks_older_ones() -> None:
    old, short, full = (
        entry(*each) for each in (("aaaaaaaaa", "1", 1e3), ("bbbbbbbbb", "2", 2e3), ("bbbbbbbbb", "1", 3e3))
    )
    assert pages.chosen({"small": {"short": short, "full": old}}, [ROW])[0].entry == short
    assert pages.chosen({"small": {"short": short, "full": full}}, [ROW])[0].entry == full
    assert pages.chosen({}, [ROW]) == []
    found = pages.chosen({"small": {"short": short}}, [ROW])
    text = pages.table(found, lambda *_: True)
    assert "| a small run | 2.0 thousand/s, 1.50 s | 0.2 times bare XADD; 3 times that of a |" in text
    assert "**not measured again since** `bbbbbbb`, 2 | `python -m x` |" in text
    assert pages.unmarked(text) == pages.table(found, lambda *_: False)
    assert pages.machines(found) == "All rows: a CPU, 2 cores, 16 GiB, Linux 6.1, Debian, Python 3.11."


def test_both_figures_of_the_paper_are_quoted() -> None:
    samples = {"rows.filter.samples_smoothed_per_second": Number(33_400_000)._asdict()}
    told = pages.times({"saturation-lean": {"short": entry("a", "1", 1.0) | {"figures": samples}}})
    assert "33.4 million samples/s are 4,349 times what the paper's database took" in told
    assert "stored 11,515 samples/s" in " ".join(told.split())


@pytest.mark.parametrize("page", pages.parts({}, committed.stale))
def test_the_pages_say_what_the_committed_figures_say(page: str) -> None:
    before = pages.unmarked((ROOT / page).read_text())
    texts = pages.parts(committed.load(), lambda *_: False)[page]
    assert pages.written(before, texts) == before, "python -m experiments.figures --write"
