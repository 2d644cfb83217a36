"""How ``python -m experiments.NAME`` begins and ends: what it lacks and what fails is one line and an exit code, and a
signal stops all parts."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from acquisition.errors import ShardpulseError

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  #: what ends a program in order

Main = Callable[[list[str]], int]


class Terminated(BaseException):
    """A signal has come: everything that was started is stopped on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def program(name: str) -> Callable[[Main], Main]:
    """Make ``main`` the program ``experiments.NAME``: it answers the exit code of a ShardpulseError, which it prints,
    and leaves its ``with`` blocks when SIGTERM, Ctrl-C or SIGHUP comes, so that no process and no directory stays
    behind."""

    def made(main: Main) -> Main:
        @functools.wraps(main)
        def run(argv: list[str]) -> int:
            try:
                with _ended_in_order():
                    return main(argv)
            except ShardpulseError as error:
                print(f"{name}: {error}", file=sys.stderr)
                return error.exit_code
            except Terminated as ended:
                return ended.exit_code

        return run

    return made


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """The first signal raises Terminated; others do not disturb the clearing up. What is ignored (nohup) stays so. Main
    thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = {number: signal.getsignal(number) for number in ENDING}
    heard = {number: handler for number, handler in heard.items() if handler is not signal.SIG_IGN}

    owner = os.getpid()

    def end(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a fork of this program, whose with blocks are not its own
            os._exit(128 + number)
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated(number)

    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)
