"""Stuck thread of a child, stopped by ptrace(2) while others go on.

Signals stop all threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

# linux/ptrace.h, sys/wait.h
_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000
_STOPPED = "tT"  #: states in /proc/PID/task/TID/stat


@contextlib.contextmanager
def stuck(thread: int) -> Iterator[None]:
    """Nothing happens in this thread within the block; skips the test where processes may not be traced."""
    try:
        _ptrace(_SEIZE, thread)
    except PermissionError:
        pytest.skip("threads cannot be stopped here: ptrace is not permitted")
    _ptrace(_INTERRUPT, thread)
    os.waitpid(thread, _WALL)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has been killed meanwhile
            _ptrace(_DETACH, thread)


def others_live(process: int) -> bool:
    """Whether no thread of a process stands still but its first."""
    tasks = [task for task in Path(f"/proc/{process}/task").iterdir() if task.name != str(process)]
    return all((task / "stat").read_text().rpartition(")")[2].split()[0] not in _STOPPED for task in tasks)


def threads(process: int) -> int:
    """How many threads a process has."""
    return len(os.listdir(f"/proc/{process}/task"))


def _ptrace(request: int, thread: int) -> None:
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if call(request, thread, None, None) == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
