"""The options of ``experiments.chaos``: the command line as one frozen value."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from acquisition.errors import UsageError
from experiments.chaos.load import Load
from experiments.chaos.schedule import KINDS, Scene
from experiments.harness import outcome

_DESCRIPTION = """\
Run the whole pipeline (shards with replicas, filter workers and generators, each on a host of
its own in a network namespace) at 50,500 samples/s, and let things go wrong at random: processes
are killed with -9 or frozen, links cut, delayed, lossy or slow, clocks stepped, memory filled, slots moved.
At the end all faults are healed and everything is drained; then the books must balance with nothing
lost, and the smoothed state of every entity must equal what a reference computes from the
generators' own logs. The seed determines the faults. Needs root."""

_EXAMPLES = """\
examples:
  python -m experiments.chaos --seconds 60 --seed 1
  python -m experiments.chaos --seconds 300 --seed 7 --save chaos-seed-7
  python -m experiments.chaos --seconds 30 --seed 3 --only kill_master,kill_worker --keep /tmp/chaos
      only these kinds of faults; all logs are kept in that directory

exit codes: 0 everything held, 1 it did not (the directory with all logs is named), 2 wrong
options, 69 a part could not be reached, 73 no namespace, port or file could be had"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """One run."""

    seconds: float = 60.0
    seed: int = 1
    hosts: int = 100
    entities: int = 101
    metrics: int = 5
    invalid: float = 0.01
    shards: int = 3
    workers: int = 3
    generators: int = 4
    tau: float = 5.0
    held_seconds: float = 600.0
    drain_seconds: float = 60.0
    node_timeout: float = 2.0
    maxmemory_bytes: int = 192 << 20
    only: tuple[str, ...] = ()
    keep: str = ""

    @property
    def load(self) -> Load:
        """What the generators emulate, once a second."""
        return Load(**self.load_arguments)

    @property
    def load_arguments(self) -> dict[str, Any]:
        """The same for another process."""
        return {
            "hosts": self.hosts,
            "entities": self.entities,
            "metrics": self.metrics,
            "interval": 1.0,
            "seed": self.seed,
            "invalid": self.invalid,
        }

    @property
    def scene(self) -> Scene:
        """What there is to break."""
        return Scene(self.shards, self.workers, self.generators)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = outcome.parser("chaos", _DESCRIPTION, _EXAMPLES)
    add = made.add_argument
    add("--seconds", type=float, default=60.0, metavar="N", help="how long things go wrong (default 60)")
    add("--seed", type=int, default=1, metavar="S", help="determines faults and values (default 1)")
    add("--hosts", type=int, default=100, metavar="N", help="emulated hosts of 101 x 5 samples a second (default 100)")
    add("--workers", type=int, default=3, metavar="N", help="filter workers (default 3)")
    add("--generators", type=int, default=4, metavar="N", help="generator processes (default 4)")
    add("--only", default="", metavar="KIND,...", help=f"only these kinds of faults: {', '.join(sorted(KINDS))}")
    add("--drain", type=float, default=60.0, metavar="S", help="longest wait for what is pending (default 60)")
    add("--keep", default="", metavar="DIR", help="keep all logs in this new directory, whatever the verdict")
    add("--schedule", action="store_true", help="print the faults of this seed and end")
    return made


def parse(argv: list[str]) -> tuple[Options, argparse.Namespace]:
    """Options of the run, and those of the program around it. Raises UsageError."""
    given = parser().parse_args(argv)
    only = tuple(filter(None, given.only.split(",")))
    for kind in only:
        if kind not in KINDS:
            raise UsageError(f"--only: there is no fault {kind!r}; there are {', '.join(sorted(KINDS))}")
    for name in ("seconds", "hosts", "workers", "generators", "drain"):
        if getattr(given, name) <= 0:
            raise UsageError(f"--{name} must be positive")
    options = Options(
        seconds=given.seconds,
        seed=given.seed,
        hosts=given.hosts,
        workers=given.workers,
        generators=min(given.generators, given.hosts),
        drain_seconds=given.drain,
        only=only,
        keep=given.keep,
    )
    return options, given
