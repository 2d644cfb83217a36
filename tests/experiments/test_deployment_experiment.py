"""What a deployment takes is measured from outside: what is counted, what a row says of its goals, what it needs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from experiments.deployment import pipeline, probe, watching

READING = """\
at_ns 1000000000
MemoryCurrent 9000000
CPUUsageNSec 5000000
NRestarts 0
Rss 12000
Pss 8000
Private_Clean 100
Private_Dirty 7000
schedstat 4000000
age 100
ring 65536
stat_rss 7000000
stat_cache 1000000
stat_mapped_file 400000
stat_shmem 100000
stat_hierarchical_memory_limit 9223372036854771712
MemoryMax infinity
kmem 500000
"""


def run_of(seconds: float = 10.0, calls: int = 5, changed: int = 0) -> dict[str, Any]:
    hosts = {"node1": calls, "node2": calls}
    return {
        "seconds": seconds, "controller_cpu_seconds": 4.0, "calls": hosts, "changed": dict.fromkeys(hosts, changed),
        "plays": {"Hosts": seconds}, "roles": {"common": seconds, "": 0.01},
    }  # fmt: skip


def row_of(first: float = 100.0, again: float = 10.0, calls: int = 5, changed: int = 0) -> dict[str, Any]:
    return {
        "packages": "cached", "first": run_of(first, 40), "again": [run_of(again, calls, changed)],
        "dry": run_of() | {"differences": changed},
    }  # fmt: skip


def test_a_call_is_noted_by_its_address_and_goes_through(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    log.touch()
    program = watching._noting(tmp_path / "ssh", "/bin/echo", log)
    calls = (["-o", "ControlPersist=120s", "198.18.0.10", "/bin/sh -c 'echo 198.18.0.11\n1.2.3.4'"],
             ["-b", "-", "[198.18.0.11]"], ["-V"])  # fmt: skip
    for words in calls:
        done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
        assert done.stdout == " ".join(words) + "\n"
    names = {"198.18.0.10": "node1", "198.18.0.11": "node2", "198.18.0.12": "node3"}
    assert watching.calls_of(log.read_text().splitlines(), names) == {"node1": 1, "node2": 1, "node3": 0}


def test_a_window_is_the_difference_of_two_readings() -> None:
    before = probe.figures(READING)
    assert "MemoryMax" not in before
    after = before | {"at_ns": 11e9, "CPUUsageNSec": 35e6, "schedstat": 24e6, "MemoryCurrent": 10e6, "age": 110.0}
    after["ring"] += 110_000
    found = probe.window(before, after)
    assert found["seconds"] == 10.0
    assert found["unit_cpu_percent"] == pytest.approx(0.3)
    assert found["probe_cpu_percent"] == pytest.approx(0.2)
    assert found["used_bytes"] == 7e6 + 4e5 + 1e5 + 5e5
    assert found["used_in_the_end_bytes"] == pytest.approx(8e6 + 490 * 11_000)
    assert found["unit_in_the_end_bytes"] == pytest.approx(10e6 + 490 * 11_000)
    assert (found["pss_bytes"], found["private_bytes"]) == (8000 * 1024, 7100 * 1024)
    assert (found["unit_anonymous_bytes"], found["unit_file_bytes"], found["unit_kernel_bytes"]) == (7e6, 1e6, 5e5)


def test_differences_that_a_dry_run_shows_are_counted() -> None:
    said = "TASK [a] ***\n--- before: /etc/a\n+++ after: /etc/a\n@@ -1 +1 @@\n-a\n+b\nchanged: [node1]\n"
    assert pipeline.differences(said) == 3
    assert pipeline.differences("TASK [x] ****\nok: [node1]\n--- not one\n") == 0


def test_each_goal_that_is_missed_is_told() -> None:
    assert pipeline.missed(row_of()) == []
    assert pipeline.missed(row_of(first=250.0)) == ["bare hosts to verified pipeline: 250 s, more than 240"]
    assert pipeline.missed(row_of(calls=21)) == [
        f"a second run, remote calls of {name}: 21, more than 20" for name in ("node1", "node2")
    ]
    assert pipeline.missed(row_of(again=41.0, changed=1)) == [
        "a second run: 41 s, more than 40", "a second run changes {'node1': 1, 'node2': 1}",
        "a dry run shows 1 differences",
    ]  # fmt: skip
    reading = probe.figures(READING)
    window = probe.window(reading, reading | {"at_ns": 11e9})
    row = {"processes": 100, "watched": 101, "windows": [window], "unit_max": "96M"}
    assert probe.missed(row) == []
    heavy = window | {"unit_cpu_percent": 0.6, "used_in_the_end_bytes": 30e6, "restarts": 1}
    assert [line.split(":")[0] for line in probe.missed(row | {"windows": [heavy]})] == [
        "the probe's unit", "the probe's unit", "the probe was started again 1 times",
    ]  # fmt: skip
