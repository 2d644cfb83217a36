"""Commands of the tutorials, run as they stand there, and what they show.

Blocks marked ``sh`` run in one shell per page, in their order. A block marked ``text`` holds lines that the block
before it prints, with … for any text: that one runs again until it prints them. Other blocks are not run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from acquisition.shards.servers import machine
from tests.support import ROOT
from tests.support.waiting import eventually

PAGES = ROOT / "docs" / "tutorial"
PATIENT = 90.0
_BLOCKS = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = r"[\d,.]*\d"


class Step(NamedTuple):
    """Commands of a page, and lines that they print."""

    command: str
    shown: str


class Shell:
    """A shell in which the commands of one page run; its files and ports are this test's own."""

    def __init__(self, directory: Path) -> None:
        (port,) = machine.free_ports(1)
        config = directory / "shardpulse.toml"
        config.write_text(
            f'[shards]\ndirectory = "{directory}/shardpulse"\nmaxmemory_bytes = 67108864\n'
            f'[probe]\nring_path = "{directory}/ring"\n[serve]\nbind = "127.0.0.1:{port}"\n'
            "[decisions.policy]\nyoung_seconds = 1.0\n"
        )
        for name in ("docs", "deploy"):
            (directory / name).symlink_to(ROOT / name)
        environment = os.environ | {
            "SHARDPULSE_CONFIG": str(config),
            "XDG_RUNTIME_DIR": str(directory),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }
        self._port = port
        self._process = subprocess.Popen(
            ["bash"], cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, block: str) -> str:
        """What the commands of a block print, with what runs in the background meanwhile."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{block.replace(':7680', f':{self._port}')}\necho; echo '<end>'\n")
        process.stdin.flush()
        printed = ""
        while (line := process.stdout.readline()) != "<end>\n":
            assert line, f"the shell has ended: {printed}"
            printed += line
        return printed

    def close(self) -> None:
        """End all that runs in it."""
        self.run("shardpulse shards down")
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    yield opened
    opened.close()


def shows(expected: str, printed: str) -> bool:
    """Whether printed lines hold the expected ones, in their order; numbers and blanks may differ."""
    lines = iter(printed.splitlines())
    return all(any(re.search(_pattern(line), found) for found in lines) for line in expected.splitlines())


def _pattern(line: str) -> str:
    words = (re.escape(word) for word in line.split())
    numbered = (re.sub(r"(?<!\w)\d[\d,]*", lambda _: _NUMBER, word) for word in words)
    return r"\s+".join(numbered).replace(r"\s+…\s+", ".*")


def steps(page: str) -> list[Step]:
    """The steps of a tutorial."""
    found: list[Step] = []
    for language, block in _BLOCKS.findall((PAGES / f"{page}.md").read_text()):
        if language == "sh":
            found.append(Step(block, ""))
        elif language == "text":
            found[-1] = found[-1]._replace(shown=block)
    return found


def take(step: Step, shell: Shell) -> None:
    """Run a step until it prints what the page shows."""
    printed = [""]

    def works() -> bool:
        printed.append(shell.run(step.command))
        return shows(step.shown, printed[-1])

    eventually(works, PATIENT, says=lambda: f"{step.command}\n{printed[-1]}")


@pytest.mark.parametrize("page", ["one-machine", "scheduler"])
def test_commands_of_a_tutorial_print_what_it_shows(page: str, shell: Shell) -> None:
    for step in steps(page):
        take(step, shell)


def test_the_scheduler_of_the_page_is_the_file_and_has_forty_lines() -> None:
    program = (PAGES / "scheduler.py").read_text()
    assert f"```python\n{program}```" in (PAGES / "scheduler.md").read_text()
    assert len(program.splitlines()) <= 40


def test_three_machines_uses_playbooks_hosts_and_variables_that_exist() -> None:
    """Its commands take machines; tests/deploy runs them."""
    page = (PAGES / "three-machines.md").read_text()
    books = re.findall(r"hosts\.yml (\w+\.yml)", page)
    assert books
    assert all((ROOT / "deploy" / book).exists() for book in books)
    hosts, variables = (block for language, block in _BLOCKS.findall(page) if language == "yaml")
    assert hosts in (ROOT / "deploy/inventories/three/hosts.yml").read_text()
    declared = "".join(file.read_text() for file in (ROOT / "deploy/roles").glob("*/meta/argument_specs.yml"))
    names = re.findall(r"^ +(\w+):", variables, re.MULTILINE)
    assert [name for name in names if not name.startswith("ansible_") and f" {name}: " not in declared] == []
