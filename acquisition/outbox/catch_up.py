"""Rate limit for frames left in the ring by an outage (no I/O).

All hosts of a healed network come back at once, each with minutes of frames, which stand in the streams
before the recent frames of hosts that were never cut off. So old frames are *played back*: at
``speed`` times the pace at which they were made, in the order of the ring. The limit follows from the filter's
cursor: the oldest frame of ours that the shard has acknowledged and the filter has not read has been
waiting this long by the shard's own clock, and recent frames of others wait as long.

Delay instead of loss as the signal, for traffic that yields to other traffic, and a target for it, is LEDBAT
(RFC 6817). Without delay the speed grows by half at every reading (slow start), after the
first delay by a quarter. Beyond the target it falls in proportion; far beyond, nothing old is sent
until the filter is near again, and readings become rarer the longer that takes. A shard that came
back empty has no recent frames of others to protect: a *refill* may be delayed five times as much. Playback keeps
the phases of hosts and resource sets apart, as they were. Frames that are not old are never delayed: live
operation pays nothing.
"""

from __future__ import annotations

from collections import deque

from acquisition.wire import stream_id

#: Frames younger than this are sent at once.
OLD = 2.0
#: In seconds: permitted wait of recent frames of others; negligible delay; delay at which to pause.
TARGET = 0.5
_UNNOTICED = 0.2
_TOO_MUCH = 1.0
#: Any slower, it would take longer than the outage did; then shedding has to help.
SLOWEST = 1.25
START = 2.0
_FASTEST = 1000.0
_FIRST_GROWTH = 1.5
_GROWTH = 1.25
_DEEPEST_CUT = 0.25
#: Initial speed of a refill, and factor of its permitted delay.
_REFILL_START, _REFILL_DELAY = 64.0, 5.0
#: Seconds between two readings of the cursor.
READING = 0.2
_RAREST_READING = 1.6
#: Frames played back within this many seconds are sent together: sent singly they cost everyone twice as much.
_TOGETHER = 0.1
#: Nothing was made while the probe was down: a longer pause is not played back.
_LONGEST_PAUSE = 1.0
_NEVER = float("inf")


class CatchUp:
    """``due``: when the next old frame may be sent, infinite while none waits for its turn; ``reading``:
    seconds between two readings; ``is_over`` until old frames or a refill begin the next one."""

    __slots__ = (
        "_at", "_growth", "_leniency", "_played", "_unread", "due", "is_active", "is_over", "is_paused", "reading",
        "speed",
    )  # fmt: skip

    def __init__(self) -> None:
        self._unread: deque[bytes] = deque()
        self.end()

    def end(self) -> None:
        """Nothing old is left, or the place to continue is unknown: the next catch-up starts from there."""
        self.is_active = self.is_paused = False
        self.is_over = True
        self.speed, self._growth = START, _FIRST_GROWTH
        self.reading = READING
        self.due = _NEVER
        self._played = self._at = 0.0
        self._leniency = 1.0
        self._unread.clear()

    def refill(self) -> None:
        """The filter has lost its state of this host and of others: their shard has lost it."""
        self.end()
        self.is_over = False
        self.speed, self._leniency = _REFILL_START, _REFILL_DELAY

    def allows(self, made: float, now: float) -> bool:
        """Whether a frame made at ``made``, more than OLD seconds before ``now``, may be sent."""
        if not self.is_active:
            self.is_active, self.is_over = True, False
            self._played, self._at = made, now
        elif not self.is_paused and now - self._at > _TOGETHER - 1e-6:
            self._played += (now - self._at) * self.speed
            self._at = now
        self._played = max(self._played, made - _LONGEST_PAUSE)
        if made <= self._played:
            self.due = _NEVER
            return True
        wait = max(_TOGETHER, (made - self._played) / self.speed)
        self.due = _NEVER if self.is_paused else self._at + wait
        return False

    def acknowledge(self, entry_id: bytes) -> None:
        """The shard has stored a frame as ``entry_id``; only while active."""
        self._unread.append(entry_id)

    def observe(self, cursor: bytes, now: float) -> None:
        """A reading of the filter's cursor in the stream."""
        delay = self._delay(cursor) / self._leniency
        if self.is_paused and delay > _TOO_MUCH:
            self.reading = min(_RAREST_READING, 2.0 * self.reading)
            return
        if self.is_paused:
            self._at = now  # playback missed meanwhile is not made up for
        elif delay > _UNNOTICED:
            self._slow_down(delay)
        else:
            self.speed = min(_FASTEST, self.speed * self._growth)
        self.is_paused = delay > _TOO_MUCH
        self.reading = READING

    def _slow_down(self, delay: float) -> None:
        factor = 1.0 / self._growth if self._growth == _FIRST_GROWTH else 1.0  # the last step was one too many
        if delay > TARGET:
            factor = min(factor, max(_DEEPEST_CUT, TARGET / delay))
        self.speed, self._growth = max(SLOWEST, self.speed * factor), _GROWTH

    def _delay(self, cursor: bytes) -> float:
        """Waiting time in seconds of the oldest acknowledged unread frame when the newest came."""
        unread, read = self._unread, stream_id.parse(cursor)
        while unread and stream_id.parse(unread[0]) <= read:
            unread.popleft()
        return (stream_id.parse(unread[-1])[0] - stream_id.parse(unread[0])[0]) / 1000.0 if unread else 0.0
