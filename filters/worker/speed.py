"""How fast a worker works, and how much it may therefore take up at once.

On a starved machine a turn of the loop must not take longer than on an idle one: until it ends nothing is
committed, and the partitions that it does not serve wait. So the work of a turn is bounded in time. The
bound on one read keeps the talkative from filling the turn: who has little waiting is served in
every round (deficit round robin: Shreedhar and Varghese, SIGCOMM 1995).
"""

from __future__ import annotations

_TURN_SECONDS = 0.2
_READ_SECONDS = 0.05
_AVERAGED = 0.5
_MOST_SAMPLES = 200_000  #: of one turn, however fast: four batches, committed while the next are computed
_BYTES = 4  #: of a sample in a frame


class Speed:
    """``value`` in samples per second of work; it starts with that of an idle core."""

    def __init__(self) -> None:
        self.value = 1e7

    def note(self, samples: int, seconds: float) -> None:
        """So much was done in so much time."""
        if samples and seconds > 0.0:
            self.value += min(1.0, seconds / _AVERAGED) * (samples / seconds - self.value)

    @property
    def turn_samples(self) -> float:
        """Samples after which a turn takes up no more."""
        return min(_MOST_SAMPLES, _TURN_SECONDS * self.value)

    @property
    def read_bytes(self) -> int:
        """What one read of a partition may bring."""
        return int(_READ_SECONDS * self.value * _BYTES)
