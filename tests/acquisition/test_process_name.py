"""The process list names the role of each command, and keeps its arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support import ROOT
from tests.support.processes import started
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["filter", "--shards", "127.0.0.1:1"], ["shardpulse: filter", "--shards", "127.0.0.1:1"]),
        (["serve", "--bind", "127.0.0.1:0"], ["shardpulse: serve", "--bind", "127.0.0.1:0"]),
        (["probe", "--shards", "127.0.0.1:1"], ["shardpulse: probe"]),
    ],
)
def test_ps_and_top_name_the_role(command: list[str], line: list[str], tmp_path: Path) -> None:
    config = tmp_path / "shardpulse.toml"
    config.write_text(f'[shards]\ndirectory = "{tmp_path}"\n[probe]\nring_path = "{tmp_path / "ring"}"\n')
    arguments = [sys.executable, "-m", "acquisition", *command, "--config", str(config)]
    with started(arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        there = psutil.Process(process.pid)
        eventually(lambda: [word for word in there.cmdline() if word][: len(line)] == line, 30.0, says=there.cmdline)
        short = Path(f"/proc/{process.pid}/comm").read_text().strip()
        assert short == f"shardpulse-{command[0]}"[:15]


def test_more_arguments_than_room_are_cut() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from acquisition.supervision import name_process;"
        "name_process('x' * 5, ['y' * 5000]); print(open('/proc/self/cmdline').read())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(ROOT)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("shardpulse: xxxxx\0yyy")
    assert len(done.stdout) < 1000
