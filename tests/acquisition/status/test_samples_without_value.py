"""Which samples are invalid: those that failed a check. Beside them stand those without a value, with reasons."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from acquisition.cli import main as shardpulse
from acquisition.model import codes
from acquisition.model.metric import schema_hash
from acquisition.shards.servers.launch import Shards
from acquisition.status.health import without_value
from acquisition.wire.frame import Samples
from acquisition.wire.status import Status
from tests.support.fixture_types import MakePipeline
from tests.support.writer_bench import METRICS, SET

MARKS = bytes([codes.MISSING, codes.RANGE, codes.FIRST, codes.VALID, codes.TIMEOUT, codes.VALID | codes.OUTLIER_FLAG])


@pytest.mark.parametrize("code", range(len(codes.NAMES)))
def test_a_code_is_valid_or_without_a_value_or_invalid(code: int) -> None:
    groups = (code == codes.VALID, code in codes.WITHOUT_VALUE, bool(codes.IS_INVALID[code]))
    assert sum(groups) == 1
    assert codes.IS_INVALID[code | codes.OUTLIER_FLAG] == codes.IS_INVALID[code]


def report(modules: object) -> Status:
    return Status("web", 1.0, {}, {"modules": modules})


def test_what_no_probe_says_is_unknown() -> None:
    assert without_value([]) is None
    hostile = [7, {"host": 7}, {"host": {"without_value": [1]}}, {"host": {"without_value": {"MISSING": "x", "y": 1}}}]
    assert without_value(map(report, hostile)) is None
    both = [
        report({"host": {"without_value": {"MISSING": 2, "FIRST": 1}}}),
        report({"vms": {"without_value": {"FIRST": 4}}}),
    ]
    assert without_value(both) == {"MISSING": 2, "FIRST": 5}
    assert without_value(both, "host") == {"MISSING": 2, "FIRST": 1}


def test_status_counts_failed_checks_alone_as_invalid(
    make_pipeline: MakePipeline, shards: Shards, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = make_pipeline(position_interval=0.1)
    pipeline.start_filter()
    pipeline.offer(1, entities=3)  # valid, and with its names
    ids, values = struct.pack("<3Q", 1, 2, 3), struct.pack("<6f", *[0.5] * 6)
    for tick in range(pipeline.tick + 1, pipeline.tick + 6):  # the native step takes these by itself
        place = (SET, schema_hash(METRICS), 3, 2, 1.0, tick, float(tick), float(tick))
        pipeline.writer.offer(Samples(*place, ids, values, MARKS))
    pipeline.writer.set_extra_status({"modules": {"host": {"without_value": {"MISSING": 5, "FIRST": 5}}}})
    pipeline.turn_until(pipeline.is_applied)
    addresses = ",".join(map(str, shards.addresses))

    def asked(*options: str) -> str:
        shardpulse(["status", "--shards", addresses, *options])
        return capsys.readouterr().out

    found: dict[str, Any] = {}

    def is_told() -> bool:
        found.update(json.loads(asked("--json")))
        return bool(found["books"]["without_value"])

    pipeline.turn_until(is_told)
    books = found["books"]
    assert (books["made"], books["applied"], books["invalid"]) == (36, 36, 10)
    assert books["without_value"] == found["sets"]["host"]["without_value"] == {"MISSING": 5, "FIRST": 5}
    for text in (asked(), asked("--host", "alpha")):
        assert "36 applied (10 of them invalid: a check failed)" in text
        assert "no value  10 samples since the probes started: 5 MISSING, 5 FIRST" in text
