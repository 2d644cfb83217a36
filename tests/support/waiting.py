"""Waiting for a condition with a deadline.

Tests never wait for a time that should be enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 60.0  #: seconds; only a test that fails waits so long, and a busy machine must not make one fail
T = TypeVar("T")


def pause() -> None:
    """Let others do something."""
    time.sleep(0.02)


def eventually(
    condition: Callable[[], T],
    seconds: float = PATIENCE,
    meanwhile: Callable[[], object] = pause,
    says: Callable[[], object] = str,
) -> T:
    """What ``condition`` returns as soon as that is true; ``meanwhile`` is called between two looks.

    After so many seconds the test fails, with what ``says`` returns.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {seconds} s: {says()}"
        meanwhile()
    return found
