"""Pseudo-terminal for tests of full-screen commands.

It has what a person would see, press and be left with.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support import ROOT
from tests.support.waiting import eventually

PATIENCE = 60.0
#: What a shell is to a command: a session with this terminal, the command in the foreground of it.
_SHELL = """
import fcntl, os, signal, sys, termios
from tests.support.waiting import eventually
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
command = os.fork()
if not command:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1], *sys.argv[2:-1]])
os.write(int(sys.argv.pop()), str(command).encode())
status = os.waitpid(command, 0)[1]
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
"""
_TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([^\x1b]+)")


class Terminal:
    """Runs a command on a terminal of its own, as its session's foreground process, and shows its screen.

    It understands what full-screen commands here send: cursor positions, erasing, the alternate screen.
    """

    def __init__(
        self, arguments: Sequence[str], columns: int = 80, lines: int = 24, code: str = "", **environment: str
    ) -> None:
        self.raw = b""
        self.lines: list[str] = [""] * lines
        self.alternate = False
        self.cursor = True
        self._row = 0
        self._rest = ""
        self._parent, child = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(child)
        start = code or "import sys; from acquisition.cli import main; sys.exit(main(sys.argv[1:]))"
        clean = {
            key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "LC_ALL", "COLUMNS", "LINES")
        }
        told, tell = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SHELL, start, *arguments, str(tell)],
            stdin=child, stdout=child, stderr=subprocess.PIPE, cwd=ROOT, pass_fds=[tell],
            env={**clean, "TERM": "xterm-256color", "LANG": "C.UTF-8", **environment},
        )  # fmt: skip
        self.pid = int(os.read(told, 20))  #: of the command
        os.close(told)
        os.close(tell)
        self._child = child
        self._open = [self._parent, child]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate()
        self.hang_up()

    def resize(self, columns: int, lines: int) -> None:
        """Another size; the kernel tells the foreground process (SIGWINCH)."""
        fcntl.ioctl(self._parent, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.lines = [*self.lines, *[""] * lines][:lines]

    def press(self, keys: str) -> None:
        """Send what keys send."""
        os.write(self._parent, keys.encode())

    def read(self, seconds: float = 0.05) -> None:
        """Take what has come, waiting so long for something."""
        while select.select([self._parent], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                data = os.read(self._parent, 65536)
                self.raw += data
                self._show(data.decode("utf-8", "replace"))
            seconds = 0.0

    def hang_up(self) -> None:
        """The terminal goes away (a line that is cut)."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()

    def until(self, condition: Callable[[str], Any], seconds: float = PATIENCE) -> str:
        """The text of the screen as soon as it fulfils a condition."""
        deadline = time.monotonic() + seconds
        while not condition(self.text):
            assert time.monotonic() < deadline, f"waited in vain; the screen is\n{self.text}\n{self.raw[-300:]!r}"
            assert self.process.poll() is None or condition(self.text), self.said()
            self.read()
        return self.text

    def end(self, seconds: float = PATIENCE) -> int:
        """The exit code, read to the end."""
        eventually(
            lambda: self.process.poll() is not None,
            seconds,
            meanwhile=self.read,
            says=lambda: f"does not end; the screen is\n{self.text}",
        )
        self.read()
        return self.process.returncode

    def said(self) -> str:
        """What an ended command said on standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode() if self.process.poll() is not None else ""

    @property
    def text(self) -> str:
        """The screen."""
        return "\n".join(self.lines)

    @property
    def modes(self) -> list[Any]:
        """The terminal's modes as they are (termios(3))."""
        return termios.tcgetattr(self._child)

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was before the command."""
        return self.modes == self.before and not self.alternate and self.cursor

    def state(self) -> str:
        """The state of the command's process, as one letter (proc(5)): T is stopped, Z has ended; "": it is gone."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return ""

    def _show(self, text: str) -> None:
        text = self._rest + text
        end = 0
        for token in _TOKEN.finditer(text):
            if token.start() != end:
                break
            end = token.end()
            numbers, letter, plain = token.groups()
            if plain:
                self._print(plain)
            else:
                self._obey(numbers, letter)
        self._rest = text[end:]

    def _print(self, text: str) -> None:
        if self._row < len(self.lines):
            self.lines[self._row] += text

    def _obey(self, numbers: str, letter: str) -> None:
        if letter == "H":
            self._row = int(numbers.split(";", maxsplit=1)[0] or 1) - 1
        elif letter == "K" and self._row < len(self.lines):
            self.lines[self._row] = ""
        elif letter == "J":
            self.lines = [""] * len(self.lines)
        elif numbers == "?1049":
            self.alternate = letter == "h"
        elif numbers == "?25":
            self.cursor = letter == "h"
