"""Watching methods compared, with their seeds and chosen parameters."""

from __future__ import annotations

from typing import NamedTuple


class Watch(NamedTuple):
    """A sample every ``interval`` ticks, the mean over it; smoothed with time constant ``tau`` (0: raw values).

    A counter of CPU time that is read every five minutes gives the mean over five minutes: that is what
    monitors of that interval publish.
    """

    name: str
    interval: int = 1
    tau: float = 0.0

    @property
    def smoothed(self) -> bool:
        """Whether rules take the moving average."""
        return self.tau > 0.0


TAUS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 30.0)
FIVE_MINUTES = Watch("5 min", 300)
TEN_SECONDS = Watch("10 s", 10)
RAW = Watch("raw 1 Hz")
WATCHES: tuple[Watch, ...] = (
    FIVE_MINUTES, TEN_SECONDS, RAW, *(Watch(f"EMA {tau:g} s", 1, tau) for tau in TAUS)
)  # fmt: skip

#: What was chosen: the way of watching and the rule that ``filters.decisions`` should start with (docs/smoothing.md).
WATCH, RULE = "EMA 5 s", "threshold"

#: Which random numbers parameters may have seen. Training and test never share a seed; all days of traces and every
#: recording are tests.
TRAINING_SEEDS: tuple[int, ...] = tuple(range(1, 11))
#: Noise that the default rule is trained on beside: of the quiet settings one in a thousand host-hours is chance.
MORE_NOISE_SEEDS: tuple[int, ...] = tuple(range(11, 41))
TEST_SEEDS: tuple[int, ...] = tuple(range(201, 211))


def named(name: str) -> Watch:
    """The way of watching of that name. Raises KeyError."""
    return {watch.name: watch for watch in WATCHES}[name]
