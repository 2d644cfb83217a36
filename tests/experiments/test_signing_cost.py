"""What signatures cost is measured of frames that are taken, with them and without."""

from __future__ import annotations

import json

import pytest

from experiments.signing_cost import main


def test_each_side_has_a_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--entities", "1,3", "--repeats", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["entities"], row["bytes"]) for row in found["rows"]] == [(1, 96 + 8 + 60), (3, 96 + 24 + 180)]
    for row in found["rows"]:
        assert all(row[f"{part}_{side}_us"] > 0 for part in ("probe", "filter") for side in ("plain", "signed"))


def test_sizes_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--entities", "1,x"]) == 2
    assert "--entities" in capsys.readouterr().err
