"""Waiting for a condition with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from acquisition.errors import ShardpulseError, TemporaryError

T = TypeVar("T")


def pause(seconds: float = 0.02) -> None:
    """Pause between two checks."""
    time.sleep(seconds)


def eventually(
    condition: Callable[[], T],
    seconds: float,
    problem: str | Callable[[], str],
    meanwhile: Callable[[], object] = pause,
    error: type[ShardpulseError] = TemporaryError,
) -> T:
    """Return the first true value of ``condition``; a ShardpulseError from it means not yet. ``meanwhile`` is called
    between two checks.

    Raises ``error`` with the ``problem``, and the last exception, after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while True:
        reason = ""
        try:
            if found := condition():
                return found
        except ShardpulseError as raised:
            reason = f": {raised}"
        if time.monotonic() > deadline:
            raise error(f"{problem if isinstance(problem, str) else problem()}{reason}")
        meanwhile()
