"""What goes wrong is told once in a while and counted every time."""

from __future__ import annotations

import time
from collections.abc import Callable

_EVERY = 10.0


class RateLimitedLog:
    """``report`` gets a line of text; ``count`` is how often there was something to tell, told or not."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._told: dict[str, float] = {}
        self.count = 0

    def tell(self, text: str, kind: str = "") -> None:
        """Report ``text``, one of its ``kind`` (by default the text itself) at most in ten seconds."""
        self.count += 1
        now = time.monotonic()
        if now - self._told.get(kind or text, -6.0 * _EVERY) > _EVERY:
            self._told[kind or text] = now
            self._report(text)
