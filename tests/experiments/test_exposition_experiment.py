"""``python -m experiments.exposition``: small runs say what they measured."""

from __future__ import annotations

import json

import pytest

from experiments import exposition


@pytest.mark.parametrize(("more", "series"), [((), 3 * (3 * 2 + 4 * 2 + 4)), (("--hosts-only",), 3 * 4 * 2)])
def test_a_small_run(capsys: pytest.CaptureFixture[str], more: tuple[str, ...], series: int) -> None:
    assert (
        exposition.main(["--hosts", "3", "--entities", "4", "--metrics", "2", "--repeats", "1", "--json", *more]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["series"] > series
    assert found["median_seconds"] > 0
    assert found["gzip_bytes"] < found["bytes"]
