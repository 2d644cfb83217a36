"""Lines for people, on stderr. No line of text stops anything: on a full disk, in a closed pipe or before a reader that
does not read, it is lost, and the work goes on.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress

from acquisition.printable import printable

ERROR, WARNING, INFO = 3, 4, 6  #: how grave a line is (syslog(3))
_PATIENCE_MS = 50  #: for a reader that is slow
_MOST_BYTES = select.PIPE_BUF  #: that a pipe which has any room takes without keeping us waiting


def say(text: str, level: int = INFO, stamp: str = "") -> None:
    """Write a line, or lose it; ``stamp`` stands in front of it where journald does not add time and level by itself.
    It may name a host or a process, which may call itself anything: nothing in it moves the cursor."""
    text = printable(text, keep="\n") + "\n"
    if sys.stderr is None:  # it was closed before Python began
        return
    with suppress(OSError, ValueError):
        try:
            descriptor = sys.stderr.fileno()
        except (OSError, ValueError):  # a stream in memory
            sys.stderr.write(text)
        else:
            if _is_journal(descriptor):
                text = "".join([f"<{level}>{line}" for line in text.splitlines(keepends=True)])
            else:
                text = stamp + text
            _write(descriptor, text.encode(sys.stderr.encoding, "backslashreplace"))


def _is_journal(descriptor: int) -> bool:
    """Whether journald reads it, which takes the level off again (sd-daemon(3), systemd.exec(5))."""
    stream = os.environ.get("JOURNAL_STREAM", "")
    if not stream:
        return False
    found = os.fstat(descriptor)
    return stream == f"{found.st_dev}:{found.st_ino}"


class _Reader:
    """What reads our lines. While it does not, no line waits for it; how many that were is said when it does again."""

    lost = 0


def _write(descriptor: int, data: bytes) -> None:
    """Past Python's buffer, which would keep what cannot be written, and fail again at the end of the process."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if _Reader.lost and poll.poll(0):
        data = b"shardpulse: %d lines are lost: stderr was not read\n" % _Reader.lost + data
        _Reader.lost = 0
    for start in range(0, len(data), _MOST_BYTES):
        if not poll.poll(0 if _Reader.lost else _PATIENCE_MS):
            _Reader.lost += 1
            return
        os.write(descriptor, data[start : start + _MOST_BYTES])
