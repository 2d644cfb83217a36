"""The probe without capabilities, and with the two that it uses: what it says, and what it reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from probes.loop.account import lacking
from tests.support import ROOT
from tests.support.processes import started

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or bool(lacking()), reason="takes root with the capabilities of which it gives some away"
)

NOBODY = 65534
READ = "disk_read_bytes_per_second"
BOTH = "CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE: disk I/O of other users' processes"
WAITING = "CAP_NET_ADMIN: waits"


def sampled(capabilities: str, process: int, config: Path) -> tuple[dict[str, Any], str]:
    """The last row of a process of another user as a probe with these capabilities reads it, and what it says."""
    config.write_text(f"[probe]\ninterval_seconds = 0.2\n[probe.processes]\npids = [{process}]\ndaemons = false\n")
    command = ["setpriv", f"--bounding-set=-all{capabilities}", "--inh-caps=-all"]
    command += [sys.executable, "-m", "probes.probe_command", "--dry-run", "--ticks", "3", "--config", str(config)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    readings = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [row for reading in readings if reading["resource_set"] == "processes" for row in reading["entities"]]
    assert {row["stable"].rpartition(":")[2] for row in rows} == {str(process)}
    return rows[-1], done.stderr


@pytest.mark.parametrize(
    ("capabilities", "reads", "said"),
    [
        ("", False, [BOTH, WAITING]),
        (",+sys_ptrace", False, ["CAP_DAC_READ_SEARCH: disk I/O", WAITING]),
        (",+dac_read_search,+sys_ptrace", True, [WAITING]),
        (",+dac_read_search,+sys_ptrace,+net_admin", True, []),
    ],
)
def test_a_probe_says_what_it_lacks_and_reads_the_rest(
    capabilities: str, reads: bool, said: list[str], tmp_path: Path
) -> None:
    with started(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sleep", "600"]) as process:
        row, told = sampled(capabilities, process.pid, tmp_path / "shardpulse.toml")
    assert [text for text in said if text not in told] == []
    assert told.count("\n") == bool(said)
    assert (READ in row["metrics"]) == reads
    assert row["metrics"]["voluntary_switches_per_second"] >= 0.0
