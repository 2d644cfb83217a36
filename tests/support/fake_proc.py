"""Directory that looks like /proc as far as discovery reads it."""

from __future__ import annotations

import os
from pathlib import Path

from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts

KERNEL_THREAD = 0x00200000


class FakeProc:
    """The processes below ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "sys" / "kernel" / "random").mkdir(parents=True)
        (path / "meminfo").write_text("MemTotal: 1000 kB\n")

    def add(
        self, pid: int, command: str, line: str = "", start: int = 100, flags: int = 0, cgroup: str = "0::/\n"
    ) -> None:
        base = self.path / str(pid)
        base.mkdir(exist_ok=True)
        numbers = ["S", "1", "1", "1", "0", "-1", str(flags), *["0"] * 12, str(start), *["0"] * 25]
        (base / "stat").write_text(f"{pid} ({command}) {' '.join(numbers)}\n")
        (base / "cmdline").write_bytes(line.replace(" ", "\0").encode() + b"\0" if line else b"")
        (base / "cgroup").write_text(cgroup)
        (base / "status").write_text(f"Name:\t{command}\nTgid:\t{pid}\n")

    def remove(self, pid: int) -> None:
        for path in (self.path / str(pid)).iterdir():
            path.unlink()
        (self.path / str(pid)).rmdir()

    def newest(self, pid: int) -> None:
        """The kernel has handed out this pid."""
        (self.path / "loadavg").write_text(f"0.00 0.01 0.05 1/{pid} {pid}\n")
        if not (self.path / "self").is_symlink():
            (self.path / "self").symlink_to(str(os.getpid()))

    def discovery(self, selection: Selection) -> Discovery:
        found = Discovery(HostFacts("h", str(self.path)), selection, 5.0)
        found.refresh(1000.0)
        return found
