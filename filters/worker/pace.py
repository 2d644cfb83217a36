"""How busy a worker is, and how long it lets frames gather because of that."""

from __future__ import annotations

_AVERAGED = 0.5
_SPARE = 0.1  #: busy so much, a worker does not linger at all
_RANGE = 0.3
_TURNS = 8


class Pace:
    """``busy`` is the share of the recent half second that was not spent waiting."""

    def __init__(self, linger_seconds: float) -> None:
        self._longest = linger_seconds
        self.busy = 0.0

    def note(self, seconds: float, waited: float) -> None:
        """A turn of the loop that took so long, of which it waited."""
        share = 1.0 - waited / max(1e-6, seconds)
        self.busy += min(1.0, seconds / _AVERAGED) * (share - self.busy)

    def linger(self) -> float:
        """Seconds until the next read: none while there is CPU to spare, the more the less there is."""
        return self._longest * min(1.0, max(0.0, (self.busy - _SPARE) / _RANGE))


def together(now: float, linger: float, number: int) -> float:
    """When a partition that lingers is read next: one of ``_TURNS`` moments within every ``linger``, the
    same for every ``_TURNS``-th partition. So the frames of some share a batch, and not all come at once."""
    phase = linger * (number % _TURNS) / _TURNS
    return ((now - phase) // linger + 1.0) * linger + phase
