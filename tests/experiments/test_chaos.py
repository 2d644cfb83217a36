"""A short chaos run: masters, workers and probes die, links and memory fail, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.chaos.__main__ import main
from experiments.testbed import missing_for_shards

SEED = 575
KINDS = {
    "kill_master", "kill_worker", "kill_generator", "cut_generator", "freeze_worker", "delay_worker", "fill_memory",
    "step_clock", "client_without_tls", "revoke_user",
}  # fmt: skip


LACK = missing_for_shards()
needs_namespaces = pytest.mark.skipif(bool(LACK), reason=f"THE CHAOS RUN IS NOT TESTED HERE: {LACK}")


@needs_namespaces
def test_short_run_holds(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    command = [sys.executable, "-m", "experiments.chaos", "--seconds", "16", "--seed", str(SEED), "--json"]
    command += ["--hosts", "20", "--workers", "2", "--generators", "2", "--archivers", "0", "--keep", str(logs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["passed"]
    assert found["failures"] == []
    assert set(found["faults"]) == KINDS
    assert all(row["made"] for row in found["faults"].values()), found["faults"]
    assert found["balance"]["samples_made"] == found["samples_made"] > 20 * 101 * 5 * 10
    assert found["balance"]["samples_applied"] == found["samples_made"]
    assert found["balance"]["samples_lost"] == 0
    assert found["samples_compared"] >= 20 * 101 * 5
    assert found["mismatches"] == 0
    assert json.loads((logs / "report.json").read_text()) == found
    assert [fault["kind"] for fault in json.loads((logs / "schedule.json").read_text())]
    for kept in ("hosts/host00000.log", "workers/worker-0.log", "redis/master0.log", "observer.jsonl"):
        assert (logs / kept).stat().st_size > 0


@needs_namespaces
def test_options_teach(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "earthquake"]) == 2
    assert "kill_master" in capsys.readouterr().err
    assert main(["--hosts", "0"]) == 2
    assert main(["--runs", "0"]) == 2
    assert main(["--seed", "3", "--seconds", "60", "--schedule"]) == 0
    assert "kill_" in capsys.readouterr().out
