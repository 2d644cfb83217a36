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
_TURNS = 8
_GATHERED = 1 / 32  #: of what is lingered: so long after the first answer the others of its turn may come
_TURN_SECONDS = 0.2
_READ_SECONDS = 0.05
_MOST_SAMPLES = 200_000  #: of one turn, however fast: four batches, committed while the next are computed
_BYTES = 4  #: of a sample in a frame
_GATHERS = 2.0  #: frames that a partition is to expect while it lingers, or it does not


class Pace:
    """``busy`` is the share of the recent half second that was not spent waiting; ``speed`` is in samples per
    second of work, and starts with that of an idle core."""

    def __init__(self, linger_seconds: float) -> None:
        self._longest = linger_seconds
        self.busy = 0.0
        self.speed = 1e7

    def note_turn(self, seconds: float, waited: float) -> None:
        """A turn of the loop took so long, of which it waited."""
        share = 1.0 - waited / max(1e-6, seconds)
        self.busy += min(1.0, seconds / _AVERAGED) * (share - self.busy)

    def note_work(self, samples: int, seconds: float) -> None:
        """So many samples took so long."""
        if samples and seconds > 0.0:
            self.speed += min(1.0, seconds / _AVERAGED) * (samples / seconds - self.speed)

    @property
    def linger(self) -> float:
        """Seconds until the next read: none while there is CPU to spare, the more the less there is."""
        return self._longest * min(1.0, max(0.0, (self.busy - _SPARE) / _RANGE))

    @property
    def gather(self) -> float:
        """Seconds that a turn waits for others when something has come: waking costs more than a few frames."""
        return min(_LONGEST_GATHER, self.linger * _GATHERED)

    @property
    def turn_samples(self) -> float:
        """Samples after which a turn takes up no more."""
        return min(_MOST_SAMPLES, _TURN_SECONDS * self.speed)

    @property
    def read_bytes(self) -> int:
        """What one read of a partition may bring."""
        return int(_READ_SECONDS * self.speed * _BYTES)


class Arrivals:
    """How many frames of a partition come: ``per_second``, of the recent half second or the last few reads."""

    __slots__ = ("_at", "per_second")

    def __init__(self, now: float) -> None:
        self._at = now
        self.per_second = 0.0

    def note(self, frames: int, now: float) -> None:
        """A read brought so many."""
        seconds, self._at = now - self._at, now
        if seconds > 0.0:
            self.per_second += min(1.0, seconds / _AVERAGED) * (frames / seconds - self.per_second)

    def worth(self, linger: float) -> float:
        """``linger``, or 0 where so few frames come in it that a wait would make them older, and gather none."""
        return linger if self.per_second * linger >= _GATHERS else 0.0


def together(now: float, linger: float, number: int) -> float:
    """When a partition that lingers is read next: one of ``_TURNS`` moments within every ``linger``, the
    same for every ``_TURNS``-th partition. So the frames of some share a batch, and not all come at once."""
    phase = linger * (number % _TURNS) / _TURNS
    return ((now - phase) // linger + 1.0) * linger + phase
