"""What a probe watches while it is measured: the load ends whole, whoever is told to, and whenever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.waiting import eventually

PROGRAMS = {
    "experiments.emulation.load_processes": [],
    "experiments.long_run.reused_pids": ["0.001"],
}


@pytest.mark.parametrize("tell", [os.kill, os.killpg], ids=["parent", "group"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_told_to_end_while_it_forks_it_leaves_nobody(
    program: str, tell: Callable[[int, int], None], tmp_path: Path
) -> None:
    for turn in range(3):  # the moment is another one each time
        run = subprocess.Popen(
            [sys.executable, "-m", program, "200", str(tmp_path), *PROGRAMS[program]],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        eventually(lambda: forked(run.pid) > 20 * turn)  # noqa: B023 - called here alone
        tell(run.pid, signal.SIGTERM)
        _, said = run.communicate(timeout=60)
        assert (run.returncode, said) == (0, b"")
        eventually(lambda: not group(run.pid))  # noqa: B023


def forked(pid: int) -> int:
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def group(leader: int) -> list[int]:
    """Who is left of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader and fields[0] != "Z":
            found.append(int(path.name))
    return found
