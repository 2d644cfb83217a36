"""What sources know about the machine that they sample: names, units, sizes."""

from __future__ import annotations

import os

from probes.procfs import number_after, read_once


class HostFacts:
    """Facts of one host. ``cores`` and ``memory_bytes`` follow hot-plugging (``refresh``).

    ``boot_id`` is the epoch of the host; ``hertz`` the unit of CPU time in /proc
    (USER_HZ, proc(5)); ``delay_accounting`` tells whether the kernel counts the time that
    processes wait for block I/O (sysctl kernel.task_delayacct, off by default since
    Linux 5.14: the figure in /proc/PID/stat is then 0 and means nothing).
    """

    __slots__ = ("boot_id", "cores", "delay_accounting", "hertz", "memory_bytes", "name", "page_size", "proc", "sys")

    def __init__(self, name: str, proc: str = "/proc", sys: str = "/sys") -> None:
        self.name = name
        self.proc = proc
        self.sys = sys
        self.boot_id = _first_line(f"{proc}/sys/kernel/random/boot_id") or "unknown"
        self.hertz = os.sysconf("SC_CLK_TCK")
        self.page_size = os.sysconf("SC_PAGE_SIZE")
        self.delay_accounting = _first_line(f"{proc}/sys/kernel/task_delayacct") != "0"
        self.cores = 0
        self.memory_bytes = 0.0
        self.refresh()

    def refresh(self) -> None:
        """Read again what can change while the host runs."""
        self.cores = os.sysconf("SC_NPROCESSORS_ONLN")
        self.memory_bytes = 1024.0 * (number_after(_read(f"{self.proc}/meminfo"), b"MemTotal:") or 0)
        self.delay_accounting = _first_line(f"{self.proc}/sys/kernel/task_delayacct") != "0"


def _read(path: str) -> bytes:
    try:
        return read_once(path)
    except OSError:
        return b""


def _first_line(path: str) -> str:
    return _read(path).partition(b"\n")[0].decode("utf-8", "replace").strip()
