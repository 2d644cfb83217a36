"""What processes take: CPU seconds and memory, by role (generator, shards, filter, reader).

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

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
Roles = Mapping[str, Sequence[int]]  #: role -> process ids


class Usage(NamedTuple):
    """CPU seconds by role since the processes began, at CLOCK_MONOTONIC ``at``."""

    at: float
    cpu: dict[str, float]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process. Raises OSError when it is gone."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text.rpartition(")")[2].split()  # the command before it may hold spaces and brackets
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def pss_bytes(pid: int) -> int:
    """Proportional set size of a process. Raises OSError when it is gone."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def read(roles: Roles) -> Usage:
    """CPU of all roles now. Raises OSError when a process is gone."""
    return Usage(time.monotonic(), {role: sum(cpu_seconds(pid) for pid in pids) for role, pids in roles.items()})


def cores(before: Usage, after: Usage) -> dict[str, float]:
    """Cores that each role used on average between two readings."""
    seconds = after.at - before.at
    return {role: (after.cpu[role] - before.cpu[role]) / seconds for role in after.cpu}


def memory(roles: Roles) -> dict[str, int]:
    """PSS bytes of all roles now."""
    return {role: sum(pss_bytes(pid) for pid in pids) for role, pids in roles.items()}
