"""Allowance of a closed-loop host: in-flight frames, limited by time.

It has no clock of its own.

A host learns which frames are smoothed from the filter's position, read four to ten times a second. It may have as many
frames in flight as are smoothed in ``FLIGHT_SECONDS``, or between two readings with news and the next two: in a
pipeline that slows down fewer of them wait, not the same number for longer (a window of rate times delay, as in BBR,
Cardwell et al., ACM Queue 2016). Until the next news it makes its frames evenly: a host that makes all of them at once,
and then none, lets its newest value grow old without any delay in the pipeline.
"""

from __future__ import annotations

import math
from collections import deque

#: A frame waits up to 0.1 s for a lingering filter, and its host up to as long again, or longer, for the news.
FLIGHT_SECONDS = 0.25
_READINGS = 2.0  #: with news: frames reported by one of them were made before the previous one
_FEWEST = 4  #: frames that may always be in flight, so that there is something to measure
_REMEMBERED = 5  #: readings with news, between which the rate is measured
_SHORTEST = 0.001  #: seconds between two frames
_MADE_UP = 0.02  #: seconds of frames that a late generator makes up for
_LOOK = 0.01  #: seconds between two checks of a host that may not make its next frame yet: it may have had news


class Allowance:
    """At most ``most`` frames of the host are not known to be smoothed; there is no need to call before ``due``
    (seconds of the clock given to ``allows``)."""

    __slots__ = ("_most", "_news", "_next", "_spacing", "due", "window")

    def __init__(self, most: int) -> None:
        self._most = most
        self._news: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)
        self._next = self.due = 0.0
        self._spacing = _SHORTEST
        self.window = min(most, _FEWEST)  #: frames that may be in flight now

    def allows(self, made: int, waiting: int, now: float) -> bool:
        """Whether the next frame may be made: of ``made`` frames ``waiting`` are not known to be smoothed at ``now``
        (seconds of any clock)."""
        smoothed = made - waiting
        if not self._news or smoothed > self._news[-1][1]:
            self._learn(smoothed, waiting, now)
        if waiting < self.window and now >= self._next:
            return True
        self.due = now + _SHORTEST if now >= self._next else min(self._next, now + _LOOK)
        return False

    def spend(self, now: float) -> None:
        """A frame was made."""
        self._next = max(now + _SHORTEST, max(self._next, now - _MADE_UP) + self._spacing)
        self.due = min(self._next, now + _LOOK)

    def _learn(self, smoothed: int, waiting: int, now: float) -> None:
        news = self._news
        news.append((now, smoothed))
        seconds = now - news[0][0]
        if seconds <= 0.0:
            return
        rate = (smoothed - news[0][1]) / seconds
        until_next = seconds / (len(news) - 1)
        flight = max(FLIGHT_SECONDS, _READINGS * until_next)
        self.window = min(self._most, max(_FEWEST, math.ceil(rate * flight)))
        self._spacing = max(_SHORTEST, until_next / max(1, self.window - waiting))
        self._next = now
