"""Processes of a test: one that ends with it, and what /proc says of them."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that is gone after the block, also where the test fails in it; ``options`` are those of Popen."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal by now (SigCgt of proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(mask >> (number - 1) & 1)


def slept() -> float:
    """Seconds that this thread has slept, by a clock that stands while it runs or waits for a core that others have:
    how long a call blocks does not depend on how busy the machine is (schedstats.rst of the kernel)."""
    ran, waited, _ = map(int, Path("/proc/thread-self/schedstat").read_text().split())
    return time.monotonic() - (ran + waited) / 1e9


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024
