"""Options of one pipeline run, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field

from experiments.emulation.workload import Workload

#: Interval between two frames in the closed loop, as stated by its hosts: that of real ones, so that windows and counts
#: have as many ticks as theirs.
_CLOSED_LOOP_INTERVAL = 1.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """One benchmark run; ``rate`` 0 is the closed loop. Hosts begin one after the other, over ``joining_seconds``;
    ``inputs`` are a name of ``pipeline.INPUTS``; with ``tls`` shards speak TLS only, and each part has its own user."""

    hosts: int = 100
    entities: int = 101
    metrics: int = 15
    rate: float = 1.0
    seconds: float = 10.0
    warmup: float = 3.0
    shards: int = 0
    filters: int = 1
    generators: int = 0
    invalid: float = 0.01
    longest_run: int = 1
    churn: float = 0.1
    seed: int = 1
    check: int = 100
    tau: float = 5.0
    linger_seconds: float | None = None
    retention_seconds: float | None = None
    filter_config: str = ""
    inputs: str = "shipped"
    outstanding_frames: int = 0
    watched: int = 32
    poll_ms: float = 5.0
    position_interval: float = 2.0
    held_seconds: float = 10.0
    drain_seconds: float = 30.0
    joining_seconds: float = 0.0
    lean: bool = False
    pins: dict[str, int] = field(default_factory=dict)
    overload: bool = False
    tls: bool = False
    profile: bool = False

    @property
    def closed_loop(self) -> bool:
        """Whether the pipeline's own limit sets the rate."""
        return self.rate == 0.0

    @property
    def workload(self) -> Workload:
        """Emulated workload."""
        interval = _CLOSED_LOOP_INTERVAL if self.closed_loop else 1.0 / self.rate
        return Workload(
            self.hosts, self.entities, self.metrics, interval, self.seed, self.invalid, self.churn, self.longest_run
        )

    @property
    def outstanding(self) -> int:
        """Maximum frames of a host in flight in the closed loop: more than two cores smooth in the time that
        ``experiments.emulation.allowance`` lets frames wait. It bounds the memory of a host."""
        in_all = 20_000 if self.workload.samples_per_frame < 300 else 12_000
        return self.outstanding_frames or max(4, min(256, in_all // self.hosts))

    @property
    def held_frames(self) -> int:
        """Capacity of an emulated outbox in frames: the outstanding ones and some more."""
        if self.closed_loop:
            return self.outstanding + 16
        return max(8, round(self.held_seconds * self.rate))
