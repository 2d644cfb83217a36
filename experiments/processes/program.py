"""How ``python -m experiments.NAME`` ends: errors are one line and an exit code, SIGTERM and Ctrl-C stop all parts."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from acquisition.errors import EXIT_INTERRUPTED, ShardpulseError

EXIT_TERMINATED = 128 + signal.SIGTERM

Main = Callable[[list[str]], int]


class Terminated(BaseException):
    """SIGTERM has come: everything that was started is stopped on the way out."""


def program(name: str) -> Callable[[Main], Main]:
    """Make ``main`` the program ``experiments.NAME``: it answers the exit code of a ShardpulseError, which it prints,
    and leaves its ``with`` blocks when SIGTERM comes, so that no process and no directory stays behind."""

    def made(main: Main) -> Main:
        @functools.wraps(main)
        def run(argv: list[str]) -> int:
            try:
                with _ended_in_order():
                    return main(argv)
            except ShardpulseError as error:
                print(f"{name}: {error}", file=sys.stderr)
                return error.exit_code
            except KeyboardInterrupt:
                return EXIT_INTERRUPTED
            except Terminated:
                return EXIT_TERMINATED

        return run

    return made


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM raises Terminated, once; a second one does not disturb the clearing up. Main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
