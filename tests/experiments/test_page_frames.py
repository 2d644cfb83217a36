"""The benchmark of the page's frames runs and says what it measured; how fast is for the benchmark to say."""

from __future__ import annotations

import json

import pytest

from acquisition.errors import EXIT_FAILURE, EXIT_OK
from experiments.page_frames.__main__ import main


@pytest.mark.needs("chromium")
def test_it_measures_frames_of_all_tiles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--hosts", "200", "--seconds", "0.5", "--json"]) in (EXIT_OK, EXIT_FAILURE)
    found = json.loads(capsys.readouterr().out)
    assert found["hosts"] == 200
    assert found["rates"]["10 ticks/s"]["frames"] > found["rates"]["10 ticks/s"]["frames_that_drew"] >= 3
