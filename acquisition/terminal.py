"""Text for people: lines on stderr, and text that is harmless on a terminal.

No line on stderr blocks anything: on a full disk, in a closed pipe or with a reader that does not read, it is lost,
and the work continues. Text chosen by others, such as names of hosts and processes, passes ``printable`` on its way to
a terminal: in ``say`` and, if it is one, on the standard output of every command.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from typing import TextIO

ERROR, WARNING, INFO = 3, 4, 6  #: severity of a line (syslog(3))
_PATIENCE_MS = 50  #: for a slow reader
_MOST_BYTES = select.PIPE_BUF  #: that a pipe with any room accepts without blocking
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def say(text: str, level: int = INFO, stamp: str = "") -> None:
    """Write a line, or lose it; ``stamp`` precedes it unless journald adds time and level by itself.
    It may contain the name of a host or a process, which can be anything: nothing in it moves the cursor."""
    text = printable(text, keep="\n") + "\n"
    if sys.stderr is None:  # it was closed before Python started
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
    """Whether journald reads it, which removes the level again (sd-daemon(3), systemd.exec(5))."""
    stream = os.environ.get("JOURNAL_STREAM", "")
    if not stream:
        return False
    found = os.fstat(descriptor)
    return stream == f"{found.st_dev}:{found.st_ino}"


class _Reader:
    """Reader of our lines. While it is blocked, no line waits for it; their number is reported when it reads again."""

    lost = 0


def _write(descriptor: int, data: bytes) -> None:
    """Bypass Python's buffer, which would keep unwritable data, and fail again at the end of the process."""
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


def printable(text: str, keep: str = "") -> str:
    """Text that moves no cursor, sends no command and reorders nothing: U+FFFD in place of control characters (C0 and
    C1, with which OSC and CSI begin), format characters (bidirectional, invisible), blanks other than the space, line
    separators, lone surrogates (str.isprintable). Those of ``keep`` stay."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in keep else _REPLACEMENT for c in text])


class Screen:
    """A terminal that receives only printable text; everything else is as for the ``terminal`` itself."""

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal

    def write(self, text: str) -> int:
        """Write lines."""
        return self.terminal.write(printable(text, keep="\n\t"))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


@contextmanager
def on_terminals() -> Iterator[None]:
    """Make standard output a ``Screen`` meanwhile, if it is a terminal; output to pipes and files is unchanged."""
    if sys.stdout is None or not sys.stdout.isatty():
        yield
        return
    with redirect_stdout(cast("TextIO", Screen(sys.stdout))):
        yield


def styled(out: TextIO) -> TextIO:
    """Stream for coloured text with parts already made ``printable``."""
    return out.terminal if isinstance(out, Screen) else out
