"""Who makes how much, for how long, and what the filter can take."""

from __future__ import annotations

from typing import NamedTuple

from experiments.emulation.workload import Workload

QUIET, TALKATIVE = "quiet", "talkative"
CLASSES = (QUIET, TALKATIVE)
#: A talkative host samples so many times as often while the load is high.
TIMES = 10


class Scenario(NamedTuple):
    """``quiet`` and ``talkative`` hosts of ``entities`` x ``metrics`` samples at 1 Hz; for ``high_seconds`` the
    talkative ones sample at 10 Hz. ``capacity`` is the part of that load which the filter can take."""

    quiet: int = 30
    talkative: int = 10
    entities: int = 20
    metrics: int = 5
    capacity: float = 0.5
    calm_seconds: float = 10.0
    high_seconds: float = 60.0
    after_seconds: float = 40.0
    shed_after: float = 5.0
    position_interval: float = 2.0
    shards: int = 2
    seed: int = 1

    @property
    def hosts(self) -> int:
        """All hosts; the quiet ones come first."""
        return self.quiet + self.talkative

    @property
    def workload(self) -> Workload:
        """What every host makes; a talkative one makes it more often."""
        return Workload(self.hosts, self.entities, self.metrics, 1.0, self.seed, 0.01, 0.0)

    @property
    def high_rate(self) -> int:
        """Samples per second while it is high."""
        return (self.quiet + TIMES * self.talkative) * self.entities * self.metrics

    @property
    def capacity_rate(self) -> float:
        """Samples per second that the filter can take."""
        return self.capacity * self.high_rate

    def kind(self, index: int) -> str:
        """The class of a host."""
        return QUIET if index < self.quiet else TALKATIVE
