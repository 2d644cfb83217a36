"""``--archive`` of benchmarks: the table ``runs``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.harness import outcome
from tests.support.archive_rows import rows

QUERY = "SELECT name, command, ended >= started, figures FROM runs"


def test_a_run_is_kept_with_all_that_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "archive.db")
    given = outcome.parser("planner", "", "").parse_args(["--json", "--archive", url])
    document = outcome.document("planner", ["--seed", "7"], [], {"moves_per_second": 12.5})
    for _ in range(2):  # the same run is one row
        assert outcome.conclude(document, given) == 0
    ((name, command, in_order, figures),) = rows(url, QUERY)
    assert name == f"experiments.planner {document['date']}"
    assert (command, in_order) == ("python -m experiments.planner --seed 7", 1)
    assert json.loads(figures) == json.loads(capsys.readouterr().out.splitlines()[0])
    assert json.loads(figures)["moves_per_second"] == 12.5


def test_a_place_that_is_none_is_said_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        outcome.parser("planner", "", "").parse_args(["--archive", "mysql://host/x"])
    assert ended.value.code == 2
    assert "expected a path, sqlite:///PATH" in capsys.readouterr().err
