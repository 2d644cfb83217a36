"""What /proc says of a process of a test."""

from __future__ import annotations

import re
from pathlib import Path


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal by now (SigCgt of proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(mask >> (number - 1) & 1)


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024
