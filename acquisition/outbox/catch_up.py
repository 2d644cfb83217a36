"""How fast a probe sends what an outage has left in its ring (no input or output).

All hosts of a healed network come back at once, each with minutes of frames, and what they send stands
in the streams before the fresh frames of hosts that were never cut off. So old frames are *played back*: at
``speed`` times the pace at which they were made, in the order of the ring. The probe is told by the filter
itself how much that may be: when the filter has not read what was acknowledged one reading ago, others
wait that long as well. Until that happens for the first time the speed grows fast (slow start, RFC 5681);
afterwards by a quarter per reading, or it falls by three tenths. And nothing old is sent until the filter has
read that: what it has before it is enough. The longer that takes, the rarer the readings become.

Delay instead of loss as the signal, for traffic that yields to other traffic, is LEDBAT's idea
(RFC 6817); here the delay is that from the shard to the filter, and one bit of it. Increase and decrease are
multiplicative, so that one host alone catches up in seconds. Playing back keeps the phases of hosts and
resource sets apart, as they were. Frames that are not old are never delayed: this costs live operation nothing.
"""

from __future__ import annotations

#: Frames younger than this are sent at once.
OLD = 2.0
#: Between two readings of the filter's cursor during a catch-up: the delay that others may notice.
READING = 0.2
_RAREST_READING = 1.6
#: Below, it would take longer than the outage did; then shedding has to help.
SLOWEST = 1.25
START = 2.0
_FASTEST = 1000.0
_GROWTH = 1.25
_FIRST_GROWTH = 3.0
_CUT = 0.7
#: Nobody made anything while the probe was down: such a pause is not played back.
_LONGEST_PAUSE = 1.0
_NEVER = float("inf")


class CatchUp:
    """``due`` is when the next old frame may be sent, infinite while none waits for its turn; ``reading``
    seconds lie between two readings."""

    __slots__ = ("_at", "_growth", "_mark", "_pauses", "_played", "due", "is_active", "reading", "speed")

    def __init__(self) -> None:
        self.is_active = False
        self.speed = START
        self.due = _NEVER
        self._growth = _FIRST_GROWTH
        self._played = self._at = 0.0
        self._mark = b""
        self._pauses = False
        self.reading = READING

    def end(self) -> None:
        """Nothing old is left, or it is not known where to go on: the next catch-up starts from there."""
        self.is_active = False
        self.due = _NEVER

    def allows(self, made: float, now: float) -> bool:
        """Whether a frame that was made at ``made``, more than OLD seconds before ``now``, may be sent."""
        if not self.is_active:
            self.is_active = True
            self.speed, self._growth, self._played, self._mark = START, _FIRST_GROWTH, made, b""
            self._pauses, self.reading = False, READING
        elif not self._pauses:
            self._played += (now - self._at) * self.speed
        self._at = now
        self._played = max(self._played, made - _LONGEST_PAUSE)
        if made <= self._played:
            self.due = _NEVER
            return True
        self.due = _NEVER if self._pauses else now + (made - self._played) / self.speed
        return False

    def observe(self, acknowledged: bytes, has_read: bool) -> None:
        """A reading of the filter's cursor: whether it has passed what ``mark`` says; ``acknowledged`` is the
        newest stream id that the shard has answered with."""
        if self._mark and not has_read:
            if not self._pauses:
                cut = _CUT if self._growth == _GROWTH else _FIRST_GROWTH**-2  # what is read now was sent two steps ago
                self.speed, self._growth = max(SLOWEST, self.speed * cut), _GROWTH
            else:
                self.reading = min(_RAREST_READING, 2.0 * self.reading)
            self._pauses = True  # once cut, until the filter has read that: it has enough to do
            return
        if self._mark and not self._pauses:
            self.speed = min(_FASTEST, self.speed * self._growth)
        self._pauses = False
        self.reading = READING
        self._mark = acknowledged

    @property
    def mark(self) -> bytes:
        """The stream id that the filter should have read by the next reading."""
        return self._mark
