"""Program frame of ``python -m experiments.NAME``: errors, exit codes, signals.

Lacking tools and failures give one line and an exit code; a signal stops all parts.
"""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable

from acquisition.errors import ShardpulseError
from acquisition.signals import raising

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  #: signals that end a program in order

Main = Callable[[list[str]], int]


class Terminated(BaseException):
    """A signal has arrived: all started parts are stopped on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def program(name: str) -> Callable[[Main], Main]:
    """Make ``main`` the program ``experiments.NAME``: it returns the exit code of a ShardpulseError, which it prints,
    and leaves its ``with`` blocks on SIGTERM, Ctrl-C or SIGHUP, so that no process and no directory is left over."""

    def made(main: Main) -> Main:
        @functools.wraps(main)
        def run(argv: list[str]) -> int:
            try:
                with raising(ENDING, Terminated):
                    return main(argv)
            except ShardpulseError as error:
                print(f"{name}: {error}", file=sys.stderr)
                return error.exit_code
            except Terminated as ended:
                return ended.exit_code

        return run

    return made
