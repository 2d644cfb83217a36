"""Process load of known size: CPU share, context switches, writes, faults."""

from __future__ import annotations

import subprocess
import sys

#: Half of one core in slices of 10 ms, about 100 voluntary switches, 2 MB written and 256 page faults per second.
_HALF = """
import mmap, os, sys, time
part, path = float(sys.argv[1]), sys.argv[2]
file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
block = bytes(20480)
at, turn = time.monotonic(), 0
while True:
    at += 0.01
    end = time.thread_time() + 0.01 * part
    while time.thread_time() < end:
        pass
    os.pwrite(file, block, turn % 1000 * 20480)
    turn += 1
    if turn % 25 == 0:
        pages = mmap.mmap(-1, 64 * 4096)
        for page in range(64):
            pages[page * 4096] = 1
        pages.close()
    time.sleep(max(0.0, at - time.monotonic()))
"""


def busy(part: float, path: str) -> subprocess.Popen[bytes]:
    """Start a load of ``part`` of one core that writes to ``path``; the caller kills it."""
    return subprocess.Popen([sys.executable, "-c", _HALF, str(part), path])
