"""What TLS costs shards is measured in pairs, and judged."""

from __future__ import annotations

import json

import pytest

from experiments.processes import access
from experiments.tls_cost import main


@pytest.mark.skipif(bool(access.missing()), reason=access.missing())
def test_a_pair_of_bare_entries(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--rows", "xadd", "--seconds", "1", "--repeats", "1", "--json"])
    found = json.loads(capsys.readouterr().out)
    row = found["rows"]["xadd"]
    assert (code == 0) == row["met"] == (not found["missed"])
    assert found["failures"] == []
    (pair,) = row["pairs"]
    assert pair["tls_us"] > 0 < pair["plain_us"]
    assert row["ratio"] == pytest.approx(pair["tls_us"] / pair["plain_us"], abs=0.001)


def test_rows_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", "xadd,much"]) == 2
    assert "'much'; there are xadd, saturated, 1000, 10000" in capsys.readouterr().err
