"""Pace of a worker: its load, and from it linger time and batch size.

On a starved machine a turn of the loop must not take longer than on an idle one: nothing is committed until it
ends, and the partitions not served in it wait. So the work of a turn is limited in time. The
limit of one read prevents busy partitions from filling the turn: those with little data are served in
every round (deficit round robin: Shreedhar and Varghese, SIGCOMM 1995).
"""

from __future__ import annotations

_AVERAGED = 0.5
_SPARE = 0.1  #: up to this load, a worker does not linger at all
_RANGE = 0.05  #: load above that at which it lingers fully: a commit costs worker and shard 0.1 ms together (0006)
_LONGEST_GATHER = 0.01
_GATHERED = 1 / 32  #: of the linger time: how long after the first answer others may join the turn
_TURN_SECONDS = 0.2
_READ_SECONDS = 0.05
_MOST_SAMPLES = 200_000  #: of one turn, at any speed: four batches, committed while the next are computed
_BYTES = 4  #: of a sample in a frame


class Pace:
    """``busy``: fraction of the last half second not spent waiting; ``speed``: samples per
    second of work, starting with that of an idle core. Derived values, updated after each turn of the loop:

    ``linger``: seconds until the next read, 0 while there is spare CPU, and more the less there is;
    ``gather``: seconds for which a turn waits for others after the first data: a wake-up costs more than a few frames;
    ``turn_samples``: limit of samples per turn; ``read_bytes``: limit of one read of a partition.
    """

    def __init__(self, linger_seconds: float) -> None:
        self._longest = linger_seconds
        self.busy = self.linger = self.gather = 0.0
        self.speed = 1e7
        self._limit()

    def note_turn(self, seconds: float, waited: float) -> None:
        """Record the duration of a turn of the loop, and the part of it spent waiting."""
        share = 1.0 - waited / max(1e-6, seconds)
        self.busy += min(1.0, seconds / _AVERAGED) * (share - self.busy)
        self.linger = self._longest * min(1.0, max(0.0, (self.busy - _SPARE) / _RANGE))
        self.gather = min(_LONGEST_GATHER, self.linger * _GATHERED)

    def note_work(self, samples: int, seconds: float) -> None:
        """Record the duration of the work on ``samples``."""
        if samples and seconds > 0.0:
            self.speed += min(1.0, seconds / _AVERAGED) * (samples / seconds - self.speed)
            self._limit()

    def _limit(self) -> None:
        self.turn_samples = min(_MOST_SAMPLES, _TURN_SECONDS * self.speed)
        self.read_bytes = int(_READ_SECONDS * self.speed * _BYTES)
