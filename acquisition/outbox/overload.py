"""Overload figures from a writer's position readings.

The rule is in ``acquisition.outbox.shedding``.
"""

from __future__ import annotations

from acquisition.outbox import shedding
from acquisition.outbox.frames.index import Entry
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.shedding import NORMAL, SHED_AFTER, Congestion, is_kept

#: The rate at which a host makes samples is averaged over this many seconds.
_RATE_SECONDS = 10.0
_INFINITY = float("inf")


class Overload:
    """``state`` is the one after the newest reading; ``after`` as for ``shedding.advance``."""

    def __init__(self, outbox: Outbox, after: float = SHED_AFTER) -> None:
        self.state = NORMAL
        self._outbox = outbox
        self._after = after
        self.newest = _INFINITY  #: frames made after this moment have to wait
        self._index = outbox.first  # everything earlier is applied or shed
        self._cursor = b""
        self._applied = 0
        self._rate = -1.0
        self._made = 0
        self._at = 0.0

    def doubt(self) -> None:
        """A new connection, or a position that went back: a fault, followed by a catch-up."""
        self.state = NORMAL
        self.newest = _INFINITY
        self._index = self._outbox.first

    def observe(self, now: float, cursor: bytes, fair_share: float) -> None:
        """Process a consistent reading: the filter's cursor, its fair share (0: none), and the
        windows' applied positions."""
        windows = self._outbox.windows.values()
        behind = max([shedding.behind(window.acked_id, cursor) for window in windows], default=0.0)
        applied = sum(window.applied for window in windows)
        moved = cursor != self._cursor if behind else applied != self._applied
        age = self._age(now)
        reading = Congestion(now, age, behind, moved, self._measured(now), fair_share)
        self.state = shedding.advance(self.state, reading, self._after)
        self.newest = now - age + self.state.window if age else _INFINITY
        self._cursor, self._applied = cursor, applied

    def reading(self, interval: float) -> float:
        """Seconds to the next reading, for a probe that reads every ``interval`` seconds."""
        return self.state.reading(interval, self._after)

    def sheds(self, entry: Entry, now: float) -> bool:
        """Whether to shed a frame that was never sent: all that are too old, as the newest go
        first, and the others except for their share. Tables have no samples and stay."""
        share = self.state.share
        return (
            share < 1.0 and entry.samples > 0 and (now - entry.at > self._after or not is_kept(entry.sequence, share))
        )

    def _age(self, now: float) -> float:
        """Seconds since the oldest frame neither applied nor shed was made; 0 without any."""
        outbox = self._outbox
        index = max(self._index, outbox.first)
        age = 0.0
        while index < outbox.end:
            entry = outbox.entry(index)
            if entry.window is not None and entry.sequence > entry.window.applied and not entry.shed:
                age = max(0.0, now - entry.at)
                break
            index += 1
        self._index = index
        return age

    def _measured(self, now: float) -> float:
        """Samples per second made by this host."""
        made = sum(window.made for window in self._outbox.windows.values())
        elapsed = now - self._at
        if self._at and elapsed > 0.0 and made >= self._made:
            rate = (made - self._made) / elapsed
            weight = min(1.0, elapsed / _RATE_SECONDS) if self._rate >= 0.0 else 1.0
            self._rate += weight * (rate - self._rate)
        self._made, self._at = made, now
        return max(0.0, self._rate)
