"""What the process list calls a command: ``shardpulse: filter --config …`` in `ps aux`, ``shardpulse-filt`` in `top`.

Linux shows the memory that the arguments lay in at the start, and 15 bytes of a name; both are the process's own to
write (proc(5)). What the system does not let us write stays as it was. The probe imports this module: it stays lean.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

_SHORT = 15
_ARGUMENTS_START, _ARGUMENTS_END = 45, 46  #: in /proc/self/stat, counted from the state of the process (fields 48, 49)


def name_process(role: str, arguments: Sequence[str] = ()) -> None:
    """Be ``role``; ``arguments`` are shown as far as there is room."""
    with suppress(OSError, ValueError), open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write(f"shardpulse-{role}"[:_SHORT])
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[_ARGUMENTS_START]), int(fields[_ARGUMENTS_END])
        words = [f"shardpulse: {role}", *arguments]
        text = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in words)[: max(0, end - start - 1)]
        if start and text:
            _write(start, text.ljust(end - start, b"\0"))


def _write(address: int, data: bytes) -> None:
    memory = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(memory, data, address)
    finally:
        os.close(memory)
