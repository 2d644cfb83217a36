"""Host facts used by sources: names, units, sizes."""

from __future__ import annotations

import os
from typing import NamedTuple

from probes.sampling.procfs import number_after, read_once

_MACHINE_ID = "/etc/machine-id"  #: machine-id(5): of this installation; copied images have the same


class Suffering(NamedTuple):
    """Suffering of the VMs of a host, total and maximum, in cores, with the validity code of both, which
    are valid for this number of seconds."""

    all: float
    worst: float
    code: int
    seconds: float


class HostFacts:
    """Facts of one host. ``cores`` and ``memory_bytes`` follow hot-plugging (``refresh``).

    ``boot_id`` is the epoch of the host; ``machine_id`` is that of its installation, "" if it has
    none; ``hertz`` is the unit of CPU time in /proc (USER_HZ, proc(5)); ``delay_accounting`` is
    whether the kernel counts the time that processes wait for block I/O (sysctl kernel.task_delayacct,
    off by default since Linux 5.14: the figure in /proc/PID/stat is then 0 and means nothing); ``hugepages`` is False
    if /proc/meminfo reports no memory in huge pages. ``scope`` is the cluster within which owners number their
    VMs (``vm_identity``), as configured. ``suffering`` is the last result of the source of VMs, None without one.
    """

    __slots__ = (
        "boot_id", "cores", "delay_accounting", "hertz", "hugepages", "machine_id", "memory_bytes", "name", "page_size",
        "proc", "scope", "suffering", "sys",
    )  # fmt: skip

    def __init__(self, name: str, proc: str = "/proc", sys: str = "/sys", scope: str = "") -> None:
        self.name = name
        self.scope = scope
        self.proc = proc
        self.sys = sys
        self.boot_id = _first_line(f"{proc}/sys/kernel/random/boot_id") or "unknown"
        self.machine_id = _first_line(_MACHINE_ID)
        self.hertz = os.sysconf("SC_CLK_TCK")
        self.page_size = os.sysconf("SC_PAGE_SIZE")
        self.delay_accounting = _first_line(f"{proc}/sys/kernel/task_delayacct") != "0"
        self.cores = 0
        self.memory_bytes = 0.0
        self.hugepages = True
        self.suffering: Suffering | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read again the facts that can change while the host runs."""
        self.cores = os.sysconf("SC_NPROCESSORS_ONLN")
        memory = _read(f"{self.proc}/meminfo")
        self.memory_bytes = 1024.0 * (number_after(memory, b"MemTotal:") or 0)
        self.hugepages = number_after(memory, b"\nHugetlb:") != 0
        self.delay_accounting = _first_line(f"{self.proc}/sys/kernel/task_delayacct") != "0"

    def note_suffering(self, found: Suffering | None) -> None:
        """Keep the result of the source of VMs; None if it no longer reads any."""
        self.suffering = found

    def owner(self, base: str) -> int:
        """User id of the process at ``base`` (/proc/PID). Raises OSError if it is gone."""
        return os.stat(base).st_uid


def _read(path: str) -> bytes:
    try:
        return read_once(path)
    except OSError:
        return b""


def _first_line(path: str) -> str:
    return _read(path).partition(b"\n")[0].decode("utf-8", "replace").strip()
