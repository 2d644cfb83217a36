"""The options of ``experiments.ingest``: the command line as one frozen value."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

from acquisition.errors import UsageError
from experiments.emulation.workload import Workload
from experiments.harness import outcome

_MAX_RATE_INTERVAL = 0.001  #: in the closed loop a host samples at most once in it

_DESCRIPTION = """\
Measure the flow from emulated probes to readable smoothed state on this machine: the product's own
frame encoder, writer, outbox, pinned shards, filter and snapshot reader. Every value changes in every
frame, 1% of the samples are invalid, VMs come and go, hosts sample at the product's hashed phases.
At the end everything is drained, the books must balance, and random entities must equal a
scalar model in plain Python, or the run fails with exit code 1."""

_EXAMPLES = """\
examples:
  python -m experiments.ingest --hosts 100 --entities 101 --metrics 5 --rate 1 --seconds 600
      the paper's data center: 100 hosts of 100 VMs, 50,500 samples/s, for ten minutes
  python -m experiments.ingest --hosts 100 --entities 100 --metrics 15 --rate max --seconds 15 --repeats 5
      the limit: a closed loop that offers no more than is smoothed
  python -m experiments.ingest --hosts 10000 --entities 101 --metrics 15 --rate 1 --seconds 60
      a million VMs, 15.15 million samples/s, 10,000 connections

exit codes: 0 measured and verified, 1 something was lost, duplicated or differs from the scalar
model, 2 wrong options, 69 a part could not be reached, 73 no port, core or file could be had"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """One benchmark run; ``rate`` 0 is the closed loop."""

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
    churn: float = 0.1
    seed: int = 1
    check: int = 100
    tau: float = 5.0
    linger_seconds: float | None = None
    retention_seconds: float | None = None
    filter_config: str = ""
    outstanding_frames: int = 0
    watched: int = 32
    poll_ms: float = 5.0
    position_interval: float = 2.0
    held_seconds: float = 10.0
    drain_seconds: float = 30.0
    lean: bool = False
    pins: dict[str, int] = field(default_factory=dict)
    overload: bool = False
    profile: bool = False

    @property
    def closed_loop(self) -> bool:
        """Whether the pipeline's own limit sets the rate."""
        return self.rate == 0.0

    @property
    def workload(self) -> Workload:
        """What is emulated."""
        interval = _MAX_RATE_INTERVAL if self.closed_loop else 1.0 / self.rate
        return Workload(self.hosts, self.entities, self.metrics, interval, self.seed, self.invalid, self.churn)

    @property
    def outstanding(self) -> int:
        """Frames of a host that may wait to be smoothed, in the closed loop: some half a second of
        all that two cores can smooth, so that the loop is never what limits."""
        in_all = 20_000 if self.workload.samples_per_frame < 300 else 6_000
        return self.outstanding_frames or max(4, min(256, in_all // self.hosts))

    @property
    def held_frames(self) -> int:
        """What an emulated outbox holds: what may be outstanding and some more."""
        if self.closed_loop:
            return self.outstanding + 16
        return max(8, round(self.held_seconds * self.rate))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = outcome.parser("ingest", _DESCRIPTION, _EXAMPLES)
    add = made.add_argument
    add("--hosts", type=int, default=100, metavar="N", help="emulated hosts, one connection each (default 100)")
    add("--entities", type=int, default=101, metavar="N", help="rows of a frame: the host and its VMs (default 101)")
    add("--metrics", type=int, default=15, metavar="N", help="columns of a frame (default 15)")
    add("--rate", default="1", metavar="HZ|max", help="frames per second and host, or max: a closed loop (default 1)")
    add("--seconds", type=float, default=10.0, metavar="S", help="length of the measured window (default 10)")
    add("--warmup", type=float, default=3.0, metavar="S", help="time before the window (default 3)")
    add("--shards", type=int, default=0, metavar="N", help="pinned redis-servers (default: one per core)")
    add("--filters", type=int, default=1, metavar="K", help="filter processes that share the partitions (default 1)")
    add("--generators", type=int, default=0, metavar="N", help="generator processes (default: one per 15,000 hosts)")
    add("--invalid", type=float, default=0.01, metavar="SHARE", help="share of invalid samples (default 0.01)")
    add("--churn", type=float, default=0.1, metavar="SHARE", help="share of the VMs replaced in an hour (default 0.1)")
    add("--seed", type=int, default=1, metavar="N", help="determines every value (default 1)")
    add("--check", type=int, default=100, metavar="N", help="random entities compared at the end (default 100)")
    add("--tau", type=float, default=5.0, metavar="S", help="time constant of filter and scalar model (default 5)")
    add("--linger", type=float, metavar="S", help="how long the filter gathers frames (default: the product's)")
    add("--retention", type=float, metavar="S", help="how long raw frames are kept (default: the product's)")
    add("--filter-config", default="", metavar="FILE", help="configuration of the filter, instead of one from --tau")
    add(
        "--outstanding",
        type=int,
        default=0,
        metavar="N",
        help="frames per host in the closed loop (default: 0.5 s)",
    )
    add("--watched", type=int, default=32, metavar="N", help="hosts that the freshness reader watches (default 32)")
    add("--poll-ms", type=float, default=5.0, metavar="MS", help="how often it looks (default 5)")
    add("--position-interval", type=float, default=2.0, metavar="S", help="of the writers (default: the product's 2)")
    add("--held", type=float, default=10.0, metavar="S", help="what an emulated outbox holds (default 10)")
    add("--drain", type=float, default=30.0, metavar="S", help="longest wait for what is pending (default 30)")
    add("--lean", action="store_true", help="emulated hosts without an outbox: cheaper, and any error fails the run")
    add("--pin", default="", metavar="ROLE=CORE,...", help="pin generator or filter (default: the kernel's choice)")
    add("--repeats", type=int, default=1, metavar="N", help="runs on fresh shards; medians are printed (default 1)")
    add("--overload", action="store_true", help="losses are what is measured: they do not fail the run")
    add("--profile", action="store_true", help="print where generator and filter spend their CPU time")
    return made


def parse(argv: list[str]) -> tuple[Options, argparse.Namespace]:
    """Options of a run, and those of the program around it. Raises UsageError."""
    given = parser().parse_args(argv)
    options = Options(
        hosts=given.hosts,
        entities=given.entities,
        metrics=given.metrics,
        rate=_rate(given.rate),
        seconds=given.seconds,
        warmup=given.warmup,
        shards=given.shards,
        filters=given.filters,
        generators=given.generators,
        invalid=given.invalid,
        churn=given.churn,
        seed=given.seed,
        check=given.check,
        tau=given.tau,
        linger_seconds=given.linger,
        retention_seconds=given.retention,
        filter_config=given.filter_config,
        outstanding_frames=given.outstanding,
        watched=given.watched,
        poll_ms=given.poll_ms,
        position_interval=given.position_interval,
        held_seconds=given.held,
        drain_seconds=given.drain,
        lean=given.lean,
        pins=_pins(given.pin),
        overload=given.overload,
        profile=given.profile,
    )
    for name in ("hosts", "entities", "metrics", "seconds", "filters", "repeats", "tau", "watched", "poll_ms"):
        if getattr(given, name) <= 0:
            raise UsageError(f"--{name.replace('_', '-')} must be positive")
    if not 0.0 <= options.invalid <= 1.0:
        raise UsageError("--invalid is a share between 0 and 1")
    return options, given


def _rate(text: str) -> float:
    if text == "max":
        return 0.0
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.0 < rate <= 1000.0:
        raise UsageError(f"--rate {text!r} is neither max nor a frequency up to 1000 Hz")
    return rate


def _pins(text: str) -> dict[str, int]:
    pins = {}
    for part in filter(None, text.split(",")):
        role, _, core = part.partition("=")
        if role not in ("generator", "filter") or not core.isdigit():
            raise UsageError(f"--pin {part!r} is not generator=CORE or filter=CORE")
        pins[role] = int(core)
    return pins
