"""The benchmark of readings, small: real shards, a real filter, a client of its own."""

from __future__ import annotations

import json

import pytest

from experiments.reading import __main__ as reading
from probes.metrics import HOST

SMALL = ["--hosts", "3", "--entities", "4", "--metrics", "2", "--seconds", "3", "--pause", "0.02", "--json"]


@pytest.mark.parametrize(
    ("question", "still"), [("snapshot", False), ("hot", True)], ids=["snapshot while it runs", "hot list at rest"]
)
def test_readings_are_timed(question: str, still: bool, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--question", question, "--shards", "3", "--warm-up", "3", *(["--still"] if still else [])]
    reading.main([*SMALL, *more])
    document = json.loads(capsys.readouterr().out)
    found = document["median"]
    assert found["readings"] > 5
    assert 0 < found["milliseconds"]["p50"] <= found["milliseconds"]["p99"]
    if question == "snapshot":
        of_vms = found["samples"] - 3 * len(HOST.metrics)
        assert (found["blocks"], found["late"]) == (6, 0)
        assert 0 < of_vms <= 3 * 4 * 2  # some VMs come later
        assert found["reference_readings"] > 0  # behind each new tick
        assert found["ratio"]["p50"] > 0
        ages = found["age_milliseconds"]
        assert 500 < ages["p50"] <= ages["p95"]  # the grace time is in them
        others = sum(found.get(f"{kind}_readings", 0) for kind in ("unchanged", "ahead", "changed"))
        assert others > found["reference_readings"]
    else:
        assert (found["hosts"], found["equal"]) == (3, True)
