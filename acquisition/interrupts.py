"""Ctrl-C and SIGTERM held back while something is done that must not be cut in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

_HELD = (signal.SIGINT, signal.SIGTERM)

_Handler = Callable[[int, FrameType | None], object] | int | None


@contextmanager
def deferred() -> Iterator[None]:
    """Signals that come inside are delivered at the end, to the handlers that were set before.

    Python handles signals in the main thread only, so in another one there is nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = _handled_by(dict.fromkeys(_HELD, note))
    try:
        yield
    finally:
        _handled_by(before)
        for held in dict.fromkeys(came):
            signal.raise_signal(held)


def _handled_by(handlers: Mapping[int, _Handler]) -> dict[int, _Handler]:
    """Exchange the handlers; returns those before.

    Meanwhile the signals are blocked: one that comes while its handler is exchanged is dropped ("ignored due to race
    condition"), and Python before 3.11.3 can crash then (gh-102397).
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, handlers)
    try:
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return {number: handler if handler is not None else signal.SIG_DFL for number, handler in before.items()}
