"""The experiment on catching up, small: everyone is current again, nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acquisition.errors import EXIT_USAGE
from experiments.catch_up import __main__ as catch_up
from experiments.catch_up.run import Trial, run
from experiments.emulation.workload import Workload


@pytest.mark.few
def test_hosts_that_were_cut_off_catch_up_and_nothing_is_lost() -> None:
    figures = run(Trial(Workload(20, 11, 5), outage=4.0, before=0.5, limit=30.0, shards=1))
    assert (figures["samples_lost"], figures["samples_duplicated"], figures["missed_ticks"]) == (0, 0, 0)
    assert figures["drained"]
    assert figures["backlog_seconds"] > 3.0
    assert figures["catch_up_seconds"] is not None
    assert figures["readings_during"]
    assert figures["freshness_ms_during"]["p50"] < 500.0  # the others notice nothing of it


def test_options_that_make_no_sense_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--away=1.5", "--away=0.001", "--outage=0", "--hosts=-1"):
        assert catch_up.main([option]) == EXIT_USAGE
        assert option.partition("=")[0] in capsys.readouterr().err


def test_committed_results_say_how_they_were_made() -> None:
    for path in (Path(catch_up.__file__).parents[1] / "results").glob("catch-up-*.json"):
        document = json.loads(path.read_text())
        assert document["command"].startswith("python -m experiments.catch_up")
        assert document["passed"]
