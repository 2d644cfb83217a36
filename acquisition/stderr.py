"""Lines for people, on stderr. No line of text stops anything: on a full disk, in a closed pipe or before a reader that
does not read, it is lost, and the work goes on.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress

_PATIENCE_MS = 50  #: for a reader that is slow
_MOST_BYTES = select.PIPE_BUF  #: that a pipe which has any room takes without keeping us waiting


def speaker(command: str) -> Callable[[str], None]:
    """What says lines for ``shardpulse COMMAND``."""
    return lambda text: say(f"shardpulse {command}: {text}")


def say(text: str) -> None:
    """Write a line, or lose it. It may name a host or a process, which may call itself anything: nothing in it moves
    the cursor."""
    text = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text) + "\n"
    if sys.stderr is None:  # it was closed before Python began
        return
    with suppress(OSError, ValueError):
        try:
            descriptor = sys.stderr.fileno()
        except (OSError, ValueError):  # a stream in memory
            sys.stderr.write(text)
        else:
            _write(descriptor, text.encode(sys.stderr.encoding, "backslashreplace"))


def _write(descriptor: int, data: bytes) -> None:
    """Past Python's buffer, which would keep what cannot be written, and fail again at the end of the process."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    for start in range(0, len(data), _MOST_BYTES):
        if not poll.poll(_PATIENCE_MS):
            return
        os.write(descriptor, data[start : start + _MOST_BYTES])
