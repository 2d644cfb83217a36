"""Check cases from fixtures: readings with the expected codes."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

from acquisition.model import codes
from acquisition.model.check_kind import CheckKind
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.metrics import RESOURCE_SETS
from probes.sampling.reading import Reading
from tests.support import FIXTURES

CAPTURES = FIXTURES / "checks"


def code_names(reading: Reading) -> list[str]:
    return [codes.name_of(code) for code in reading.codes]


def as_float(value: Any) -> float:
    return float("nan") if value is None else float(value)


def columns(case: dict[str, Any]) -> ResourceSet:
    known = {metric.name: metric for metric in RESOURCE_SETS[case["set"]].metrics}
    return ResourceSet(case["set"], tuple(known[name] for name in case["metrics"]))


def make_reading(case: dict[str, Any], reading: dict[str, Any]) -> Reading:
    resource_set = columns(case)
    rows = reading["rows"]
    return Reading(
        resource_set,
        [Entity(row["entity"], "process", str(row["entity"]), "", "") for row in rows],
        array("d", [as_float(value) for row in rows for value in row["values"]]),
        bytearray(codes.NAMES.index(name) for row in rows for name in row.get("codes", ["VALID"] * len(row["values"]))),
        reading["wall"],
        reading["monotonic"],
        reading["dt"],
        reading["cores"],
        reading["memory_bytes"],
    )


def run_fixture(kind: CheckKind, cases: Path) -> int:
    """Run every case of a check alone; the number of samples that it gave a code."""
    found = 0
    for case in json.loads(cases.read_text()):
        check = kind.build(columns(case), case["settings"])
        for number, described in enumerate(case["readings"]):
            reading = make_reading(case, described)
            before, values = bytes(reading.codes), reading.values.tobytes()
            check(reading)
            expected = [code for row in described["rows"] for code in row["expected"]]
            assert code_names(reading) == expected, f"{case['name']}, reading {number}"
            assert reading.values.tobytes() == values, "a check never changes a value"
            found += sum(a != b for a, b in zip(before, reading.codes, strict=True))
    return found
