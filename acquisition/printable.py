"""Text that others chose, such as names of hosts and processes, on its way to a terminal: the one place that makes it
harmless. ``stderr.say`` and, on a terminal, the standard output of every command pass through here.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from typing import TextIO

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def printable(text: str, keep: str = "") -> str:
    """Text that moves no cursor, sends no command and reorders nothing: U+FFFD in place of control characters (C0 and
    C1, with which OSC and CSI begin), format characters (bidirectional, invisible), blanks other than the space, line
    separators, lone surrogates (str.isprintable). Those of ``keep`` stay."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in keep else _REPLACEMENT for c in text])


class Screen:
    """A terminal to which only printable text is written; all else is as of the ``terminal`` itself."""

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
    """Meanwhile standard output is a ``Screen``, if it is a terminal; answers in pipes and files are as they are."""
    if sys.stdout is None or not sys.stdout.isatty():
        yield
        return
    with redirect_stdout(cast("TextIO", Screen(sys.stdout))):
        yield


def styled(out: TextIO) -> TextIO:
    """Where to write text with colours, whose parts have been made ``printable``."""
    return out.terminal if isinstance(out, Screen) else out
