"""Usage of processes by role: CPU seconds and memory.

Roles are generator, shards, filter and reader.

CPU is user and system time of all threads from ``/proc/PID/stat`` (proc(5)), in clock ticks
of usually 10 ms, so windows of seconds are needed. Memory is PSS from
``/proc/PID/smaps_rollup``: shared pages count by share. Waited-for children are not counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from probes.loop.account import pss_bytes

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
Roles = Mapping[str, Sequence[int]]  #: role -> process ids


class Usage(NamedTuple):
    """CPU seconds by role since the processes began, at CLOCK_MONOTONIC ``at``; ``busy`` and ``stolen`` are CPU seconds
    of the whole machine since boot: they reveal a shared machine."""

    at: float
    cpu: dict[str, float]
    busy: float
    stolen: float


def cpu_seconds(pid: int) -> float:
    """User and system time of a process. Raises OSError if it is gone."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text.rpartition(")")[2].split()  # the command before it may hold spaces and brackets
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def read(roles: Roles) -> Usage:
    """Current CPU seconds of all roles. Raises OSError if a process is gone."""
    cpu = {role: sum(cpu_seconds(pid) for pid in pids) for role, pids in roles.items()}
    return Usage(time.monotonic(), cpu, *_machine_seconds())


def spent(before: Usage, after: Usage) -> dict[str, float]:
    """CPU seconds of each role between two readings; ``others`` is the use by the rest of the machine (this program,
    other users'), ``stolen`` the time that the hypervisor gave away."""
    ours = {role: after.cpu[role] - before.cpu[role] for role in after.cpu}
    others = after.busy - before.busy - sum(ours.values())
    return ours | {"others": max(0.0, others), "stolen": after.stolen - before.stolen}


def cores(before: Usage, after: Usage) -> dict[str, float]:
    """Average cores used by each role between two readings: ``spent`` per second."""
    seconds = after.at - before.at
    return {role: used / seconds for role, used in spent(before, after).items()}


def _machine_seconds() -> tuple[float, float]:
    """Busy and stolen CPU seconds of all cores (proc(5), /proc/stat)."""
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _iowait, interrupts, softirq, steal = fields[:8]
    return (user + nice + system + interrupts + softirq) / _TICKS_PER_SECOND, steal / _TICKS_PER_SECOND


def memory(roles: Roles) -> dict[str, int]:
    """Current PSS bytes of all roles; ended processes count nothing."""
    return {role: sum(pss_bytes(pid) for pid in pids) for role, pids in roles.items()}
