"""Pace of a worker: its load, and from it linger time and batch size.

On a starved machine a turn of the loop must not take longer than on an idle one: until it ends nothing is
committed, and the partitions that it does not serve wait. So the work of a turn is bounded in time. The
bound on one read keeps the talkative from filling the turn: who has little waiting is served in
every round (deficit round robin: Shreedhar and Varghese, SIGCOMM 1995).
"""

from __future__ import annotations

_AVERAGED = 0.5
_SPARE = 0.1  #: busy so much, a worker does not linger at all
_RANGE = 0.05  #: busy so much more, it lingers fully: a commit costs worker and shard 0.1 ms together (0006)
_LONGEST_GATHER = 0.01
_GATHERED = 1 / 32  #: of what is lingered: so long after the first answer the others of its turn may come
_TURN_SECONDS = 0.2
_READ_SECONDS = 0.05
_MOST_SAMPLES = 200_000  #: of one turn, however fast: four batches, committed while the next are computed
_BYTES = 4  #: of a sample in a frame


class Pace:
    """``busy`` is the share of the recent half second that was not spent waiting; ``speed`` is in samples per
    second of work, and starts with that of an idle core. What follows from them, after each turn of the loop:

    ``linger`` seconds pass until the next read: none while there is CPU to spare, the more the less there is;
    ``gather`` seconds a turn waits for others when something has come: waking costs more than a few frames;
    after ``turn_samples`` a turn takes up no more; one read of a partition may bring ``read_bytes``.
    """

    def __init__(self, linger_seconds: float) -> None:
        self._longest = linger_seconds
        self.busy = self.linger = self.gather = 0.0
        self.speed = 1e7
        self._limit()

    def note_turn(self, seconds: float, waited: float) -> None:
        """A turn of the loop took so long, of which it waited."""
        share = 1.0 - waited / max(1e-6, seconds)
        self.busy += min(1.0, seconds / _AVERAGED) * (share - self.busy)
        self.linger = self._longest * min(1.0, max(0.0, (self.busy - _SPARE) / _RANGE))
        self.gather = min(_LONGEST_GATHER, self.linger * _GATHERED)

    def note_work(self, samples: int, seconds: float) -> None:
        """So many samples took so long."""
        if samples and seconds > 0.0:
            self.speed += min(1.0, seconds / _AVERAGED) * (samples / seconds - self.speed)
            self._limit()

    def _limit(self) -> None:
        self.turn_samples = min(_MOST_SAMPLES, _TURN_SECONDS * self.speed)
        self.read_bytes = int(_READ_SECONDS * self.speed * _BYTES)
