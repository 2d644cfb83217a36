"""Terminal (I/O): modes, screen, keyboard and signals, restored on any exit.

Only changed lines are sent, in one write: over a slow line an unchanged picture costs nothing. Control
sequences are those of ECMA-48 and xterm (alternate screen ``?1049``, cursor ``?25``), supported by every
current terminal; see console_codes(4).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import tty
from collections.abc import Sequence
from types import FrameType
from typing import Any, Self

from rich.console import Console
from rich.text import Text

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
#: Stop signals.
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
#: In addition: a new terminal size; stopped and continued by the shell.
WATCHED = (*STOPS, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)
_LEAVE_SECONDS = 0.5  #: time limit for restoring the screen if the terminal accepts no output
_FALLBACK = os.terminal_size((80, 24))


class Signals:
    """Signals as numbers to read: ``fileno`` is readable while some are pending. A context manager."""

    def __init__(self, watched: Sequence[signal.Signals] = WATCHED) -> None:
        self._watched = watched

    def __enter__(self) -> Self:
        self._reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._writing = writing
        self._old_fd = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._old = {number: signal.signal(number, _ignore) for number in self._watched}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        os.close(self._reading)
        os.close(self._writing)

    def fileno(self) -> int:
        """Descriptor for poll."""
        return self._reading

    def take(self) -> set[int]:
        """Signals received since the last call."""
        try:
            return set(os.read(self._reading, 4096))
        except BlockingIOError:
            return set()

    @staticmethod
    def suspend() -> None:
        """Stop this process like the terminal's Ctrl-Z; returns when it is continued."""
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)


class Terminal:
    """A full screen on ``output`` with keys from ``keyboard`` (terminal descriptors). A context manager."""

    def __init__(self, keyboard: int, output: int, signals: Signals, console: Console) -> None:
        self.keyboard = keyboard
        self._output, self._own = _own_description(output)
        self._signals = signals
        self._console = console
        self._shown: list[str] = []
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self.keyboard)
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        if self._own:
            os.close(self._output)

    def enter(self) -> None:
        """Take over the terminal: single keys without echo, including Ctrl-S, and an empty screen of its own."""
        tty.setcbreak(self.keyboard, termios.TCSANOW)
        modes = termios.tcgetattr(self.keyboard)
        modes[0] &= ~termios.IXON
        termios.tcsetattr(self.keyboard, termios.TCSANOW, modes)
        self._shown = []
        self._write(_ENTER)

    def leave(self) -> None:
        """Restore the terminal, even if it accepts no output or is gone."""
        with contextlib.suppress(OSError):
            self._write(_LEAVE, _LEAVE_SECONDS)
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self.keyboard, termios.TCSANOW, self._before)

    def size(self) -> os.terminal_size:
        """Columns and lines; 80 x 24 if the terminal does not report them."""
        try:
            size = os.get_terminal_size(self._output)
        except OSError:
            return _FALLBACK
        return size if size.columns > 0 and size.lines > 0 else _FALLBACK

    def forget(self) -> None:
        """Make the next ``draw`` send everything: the contents of the screen are unknown."""
        self._shown = []

    def read(self) -> bytes:
        """Typed bytes; b"" if the terminal is gone."""
        try:
            return os.read(self.keyboard, 4096)
        except OSError:
            return b""

    def draw(self, lines: Sequence[Text]) -> None:
        """Show these lines. Raises OSError if the terminal is gone."""
        wanted = [self._ansi(line) for line in lines]
        clear = "" if self._shown else "\x1b[0m\x1b[2J"
        shown = [*self._shown, *[""] * len(wanted)]
        changed = [f"\x1b[{row + 1};1H\x1b[2K{line}" for row, line in enumerate(wanted) if line != shown[row]]
        if clear or changed:
            self._shown = wanted if self._write(clear + "".join(changed)) else []

    def _ansi(self, line: Text) -> str:
        with self._console.capture() as captured:
            self._console.print(line, end="", soft_wrap=True)
        return captured.get()

    def _write(self, text: str, patience: float | None = None) -> bool:
        """Whether all was written: waits for a blocked terminal until a signal arrives, or for ``patience``."""
        data = text.encode("utf-8", "replace")
        wakers = [self._signals] if patience is None else []
        while data:
            try:
                data = data[os.write(self._output, data) :]
            except BlockingIOError:
                if not select.select(wakers, [self._output], [], patience)[1]:
                    return False
        return True


def _own_description(output: int) -> tuple[int, bool]:
    """The terminal reopened, so that writes do not block and the
    descriptor shared with the shell is unchanged; the same descriptor if that is not possible."""
    with contextlib.suppress(OSError):
        return os.open(os.ttyname(output), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC), True
    return output, False


def _ignore(number: int, frame: FrameType | None) -> None:
    """The wake-up descriptor notifies the loop."""
