"""Guest processes in a directory like /proc, with fixture command lines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
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
        wanted = {str(number): name for number, name in enumerate(names, pid)}
        tasks.mkdir(exist_ok=True)
        for gone in {each.name for each in os.scandir(tasks)} - wanted.keys():
            shutil.rmtree(tasks / gone)
        for number, name in wanted.items():
            (tasks / number).mkdir(exist_ok=True)
            (tasks / number / "comm").write_text(f"{name}\n")

    def threads_had(self, pid: int, times: Mapping[int, tuple[int, int]], cgroups: str = "") -> None:
        """The threads with these numbers after the pid have run and waited for so many nanoseconds in all."""
        for number, (run, delay) in times.items():
            task = self.path / str(pid) / "task" / str(pid + number)
            (task / "schedstat").write_text(f"{run} {delay} 7\n")
            (task / "cgroup").write_text(cgroups)

    def thread_ran_a_guest(self, pid: int, number: int, ticks: int) -> None:
        """The thread with this number after the pid has run a guest for so many clock ticks."""
        fields = ["0"] * 49
        fields[39] = str(ticks)
        (self.path / str(pid) / "task" / str(pid + number) / "stat").write_text(f"1 (x) S {' '.join(fields)}\n")

    def cgroup(self, path: str, cpu_stat: str) -> None:
        """The cgroup below ``root``/sys/fs/cgroup has this cpu.stat."""
        directory = self.root / "sys/fs/cgroup" / path
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cpu.stat").write_text(cpu_stat)

    def state(self, pid: int, letter: str) -> None:
        """The process is in this state of proc(5)."""
        stat = self.path / str(pid) / "stat"
        head, end, tail = stat.read_text().rpartition(") ")
        stat.write_text(f"{head}{end}{letter}{tail[1:]}")

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
