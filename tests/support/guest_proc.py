"""A directory like /proc with processes of qemu, their command lines from fixtures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support import FIXTURES

_BEFORE = FIXTURES / "proc" / "before"


def words_of(name: str) -> list[str]:
    """The command line in a fixture."""
    return (FIXTURES / "qemu" / f"{name}.txt").read_text().splitlines()


class GuestProc:
    """Below ``path``/proc; ``path`` is the root of the host's files."""

    def __init__(self, path: Path) -> None:
        self.root = path
        self.path = path / "proc"
        shutil.copytree(_BEFORE, self.path)
        shutil.rmtree(self.path / "4711")

    def add(self, pid: int, words: Sequence[str], command: str = "qemu-system-x86", start: int = 123456) -> Path:
        """A process with this command line; its directory."""
        base = self.path / str(pid)
        shutil.copytree(_BEFORE / "4711", base)
        text = (base / "stat").read_text().replace("4711 (a (b) c)", f"{pid} ({command})")
        (base / "stat").write_text(text.replace(" 123456 ", f" {start} "))
        (base / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        return base

    def runs(self, pid: int, program: str) -> None:
        """The process runs this program."""
        os.symlink(program, self.path / str(pid) / "exe")

    def has_threads(self, pid: int, names: Iterable[str]) -> None:
        """The process has exactly these threads."""
        tasks = self.path / str(pid) / "task"
        shutil.rmtree(tasks, ignore_errors=True)
        tasks.mkdir()
        for number, name in enumerate(names, pid):
            (tasks / str(number)).mkdir()
            (tasks / str(number) / "comm").write_text(f"{name}\n")

    def has_open(self, pid: int, targets: Iterable[str]) -> None:
        """The process has these files open, from descriptor 10 on."""
        for directory in ("fd", "fdinfo"):
            (self.path / str(pid) / directory).mkdir(exist_ok=True)
        for number, target in enumerate(targets, 10):
            os.symlink(target, self.path / str(pid) / "fd" / str(number))
            (self.path / str(pid) / "fdinfo" / str(number)).write_text("pos:\t0\nflags:\t0104002\n")

    def spends(self, pid: int, user: int, guest: int) -> None:
        """Add to the clock ticks of CPU time that the process has had (``user`` with those of its guest)."""
        stat = self.path / str(pid) / "stat"
        head, end, tail = stat.read_text().rpartition(")")
        fields = tail.split()
        fields[11], fields[40] = str(int(fields[11]) + user), str(int(fields[40]) + guest)
        stat.write_text(f"{head}{end} {' '.join(fields)}\n")
