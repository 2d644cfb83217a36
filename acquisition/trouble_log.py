"""Messages of a long-running command about trouble: one line when it begins, one when it is over.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from acquisition.errors import ShardError, TemporaryError, UnavailableError
from acquisition.log import Category

SHARDS = "shards"  #: the trouble that the shards, or some of them, do not answer as they should
_EVERY = 10.0  #: seconds between two lines of a kind
_PATIENCE = 1.0  #: what is over sooner is not reported, as that a partition has moved


class _Trouble:
    """One that lasts. ``kinds`` of it were reported already; ``newest`` is when it was last seen, with ``text``."""

    __slots__ = ("began", "kinds", "newest", "text")

    def __init__(self, now: float) -> None:
        self.began = self.newest = now
        self.text = ""
        self.kinds: set[str] = set()


class TroubleLog:
    """``report`` gets lines of text; ``count`` is how many messages there were, reported or not."""

    def __init__(self, report: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.report = report
        self._warn: Callable[[str], None] = report.warn if isinstance(report, Category) else report
        self.count = 0
        self._clock = clock
        self._told: dict[str, float] = {}
        self._troubles: dict[str, _Trouble] = {}

    def tell(self, text: str, kind: str = "") -> None:
        """Report an event, ``text``, which has no end; one of its ``kind`` (by default the text) in ten seconds."""
        self.count += 1
        self._tell(text, kind or text)

    def lasts(self, trouble: str, text: str, kind: str = "", patience: float = _PATIENCE) -> None:
        """Call it again and again while a trouble lasts. ``text`` is reported once for each ``kind`` of it, when it has
        lasted for ``patience`` seconds; and not too soon after the line that such a trouble was over."""
        self.count += 1
        now = self._clock()
        found = self._troubles.get(trouble)
        if found is None:
            found = self._troubles[trouble] = _Trouble(now)
        found.newest, found.text = now, text
        if kind not in found.kinds and now - found.began >= patience and self._tell(text, f"{trouble} {kind}"):
            found.kinds.add(kind)

    def fails(self, trouble: str, error: Exception, patience: float = _PATIENCE) -> None:
        """``lasts`` for an error: all that pass when shards are there again are of one kind."""
        passing = isinstance(error, ShardError | TemporaryError) or type(error) is UnavailableError
        self.lasts(trouble, str(error), "" if passing else type(error).__name__, patience)

    def over(self, trouble: str, text: str = "") -> None:
        """The trouble is over, if there was any; ``text``, unless it is empty, is reported if its beginning was."""
        found = self._troubles.pop(trouble, None)
        if found is not None and found.kinds:
            if text:
                self.report(text)
            for kind in found.kinds:
                self._told[f"{trouble} {kind}"] = self._clock()

    def calm(self, trouble: str, seconds: float) -> bool:
        """Whether there was such a trouble, and has been nothing of it for so long."""
        found = self._troubles.get(trouble)
        return found is not None and self._clock() - found.newest >= seconds

    @property
    def trouble(self) -> str:
        """What goes wrong now, reported or not; "" when nothing does."""
        return "; ".join([found.text for found in self._troubles.values()])

    def _tell(self, text: str, kind: str) -> bool:
        now = self._clock()
        if now - self._told.get(kind, float("-inf")) <= _EVERY:
            return False
        self._told[kind] = now
        self._warn(text)
        return True
