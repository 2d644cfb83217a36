"""Signals: held back during a block, or raising until it is left.

An exception raised by a signal can be lost: inside a weak reference's callback (every import has one) or a
``__del__`` it is printed and forgotten, and libraries in C clear unexpected errors: the program would continue
as if Ctrl-C had not been pressed. Here it is raised again, so that the dropped one need not be printed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from _thread import allocate_lock, get_ident, get_native_id, start_new_thread
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_EVERY = 0.1  #: seconds until it is raised again
_HELD = (signal.SIGINT, signal.SIGTERM)

_Handler = Callable[[int, FrameType | None], object] | int | None


@contextmanager
def raising(numbers: Iterable[signal.Signals], made: Callable[[int], BaseException]) -> Iterator[None]:
    """Inside, the first of these signals raises ``made`` of it, repeatedly until the block is left.

    Nothing is raised while it is being handled, that is in ``finally``, ``except`` and on the way out of ``with``.
    Ignored signals (nohup) stay ignored; in a fork the signal ends the fork alone. In the main thread only: in another
    one nothing changes.
    """
    if get_native_id() != os.getpid():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    insistence = _Insistence(made)
    hook = sys.unraisablehook
    sys.unraisablehook = lambda dropped: None if insistence.has_raised(dropped) else hook(dropped)
    for number in before:
        signal.signal(number, insistence.hear)
    try:
        yield
    finally:
        insistence.end()
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


class _Insistence:
    """The raised exception, and the thread that sends the signal again."""

    def __init__(self, made: Callable[[int], BaseException]) -> None:
        self._made = made
        self._raised: BaseException | None = None
        self._over = False
        self._lock = allocate_lock()  #: held where the signal is sent, so that none is sent after the end
        self._owner = os.getpid()

    def hear(self, number: int, _frame: FrameType | None) -> None:
        """Raise, unless that is being handled."""
        if os.getpid() != self._owner:  # its with blocks are those of its parent
            os._exit(128 + number)
        if self._over or self._is_handled():
            return
        if self._raised is None:
            start_new_thread(self._send_again, (number, get_ident()))  # `threading` takes locks that may be held here
        self._raised = self._made(number)
        raise self._raised

    def has_raised(self, dropped: UnraisableHookArgs) -> bool:
        """Whether the dropped exception is the signal, which will be sent again."""
        return dropped.exc_value is not None and dropped.exc_value is self._raised

    def end(self) -> None:
        """Raise nothing for later signals."""
        with self._lock:
            self._over = True

    def _is_handled(self) -> bool:
        handled = sys.exc_info()[1]
        while handled is not None and handled is not self._raised:
            handled = handled.__context__
        return handled is not None

    def _send_again(self, number: int, thread: int) -> None:
        while True:
            time.sleep(_EVERY)
            with self._lock:
                if self._over:
                    return
                signal.pthread_kill(thread, number)


@contextmanager
def deferred() -> Iterator[None]:
    """Ctrl-C and SIGTERM received inside are delivered at the end, to the handlers set before.

    Python handles signals in the main thread only, so in another one there is nothing to do.
    """
    if get_native_id() != os.getpid():
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
    """Exchange the handlers; returns the previous ones.

    Meanwhile the signals are blocked: one that arrives while its handler is exchanged is dropped ("ignored due to race
    condition"), and Python before 3.11.3 can crash then (gh-102397).
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, handlers)
    try:
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return {number: handler if handler is not None else signal.SIG_DFL for number, handler in before.items()}
