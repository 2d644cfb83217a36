"""Comparison with Prometheus and its exporters: latency and wrong answers."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from acquisition.errors import UsageError
from experiments import testbed
from experiments.beside import benefit, faults, script, tables, world
from experiments.beside.world import World
from experiments.harness import outcome
from experiments.processes import needs
from experiments.processes.program import program

_DESCRIPTION = """\
Ten hosts, each a tree of files as /proc has them, kept up to date by one script of load with known onsets, and network
namespaces of its own. On each run node_exporter, process-exporter and the probe. Four systems watch them:

  a  Prometheus that scrapes every second, with a recording rule and an alert rule
  b  the same every 15 s with averages over five minutes, as most have it
  c  the same every 10 s with the rules of schedulers: two minutes (oVirt), k of n (Sandpiper)
  d  shardpulse with its defaults: one shard over TLS, filter, service

All rules are files in experiments/beside/rules. Table Benefit: how soon an overload is answered, false alarms, costs.
Table Truth: what breaks, and how many answers call a busy or dead host or VM idle, or an idle host hot; in brackets
how many answers gave no value, which misleads nobody."""

_EXAMPLES = """\
examples:
  python -m experiments.beside --quick
  python -m experiments.beside --json --save beside
  python -m experiments.beside --only dead,migrated

Needs root (network namespaces) and the Debian packages prometheus, prometheus-node-exporter and
prometheus-process-exporter, whose services need not run."""

NEEDS = (
    needs.tool("prometheus", "prometheus"),
    needs.tool("prometheus-node-exporter", "prometheus-node-exporter"),
    needs.tool("prometheus-process-exporter", "prometheus-process-exporter"),
    testbed.missing_for_shards,
)


class Extent(NamedTuple):
    """Durations of the parts of a run, seconds."""

    warm_up: int
    benefit: int
    fault: int
    pause: int

    @classmethod
    def of(cls, fault: int, with_benefit: bool) -> Self:
        """All parts, derived from the duration of a fault."""
        return cls(fault, 10 * fault if with_benefit else 0, fault, fault // 4)

    def left(self, rows: int) -> int:
        """Seconds left in the part *Truth* with ``rows`` rows to come."""
        return rows * (self.fault + self.pause)


_FULL, _QUICK = 60, 13  #: seconds of a fault


@program("beside")
def main(argv: list[str]) -> int:
    """Measure, print, save; 0 if the run was completed, whatever its figures."""
    given, rows, extent = parse(argv)
    needs.require(*NEEDS)
    figures = measure(given.hosts, given.seed, rows, extent)
    found = {"hosts": given.hosts, "extent": extent._asdict(), **figures}
    return outcome.conclude(outcome.document("beside", argv, [], found), given, text)


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[faults.Fault], Extent]:
    """The options, the faults in their order, and the extent. Raises UsageError."""
    parser = outcome.parser("beside", _DESCRIPTION, _EXAMPLES, hosts=10, seed=1)
    add = parser.add_argument
    add(
        "--seconds",
        type=int,
        default=_FULL,
        metavar="S",
        help="of each fault (default 60); Benefit: ten times as long",
    )
    add("--quick", action="store_const", const=_QUICK, dest="seconds", help="six minutes: --seconds 13")
    add("--only", metavar="FAULT,...", help="these rows of the table Truth, and no table Benefit")
    given = parser.parse_args(argv)
    outcome.require_positive(given, "seconds")
    if given.hosts < 2 or given.hosts % 2:
        raise UsageError("--hosts must be an even number from 2 on: half of them are busy")
    known = {fault.name: fault for fault in faults.FAULTS}
    names = given.only.split(",") if given.only else list(known)
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--only {','.join(unknown)}: there are {', '.join(known)}")
    return given, [known[name] for name in names], Extent.of(given.seconds, not given.only)


def measure(hosts: int, seed: int, rows: list[faults.Fault], extent: Extent) -> dict[str, Any]:
    """Both tables. Raises ShardpulseError if a part does not start, or ends."""
    progress, truth = _progress(), extent.warm_up + extent.left(len(rows))
    progress("start", extent.warm_up + extent.benefit + truth)
    with world.running(hosts, seed) as running:
        progress("warm-up", extent.warm_up + extent.benefit + truth)
        time.sleep(extent.warm_up)
        found = {}
        if extent.benefit:
            found = benefit.watch(running, extent.benefit, seed, lambda left: progress("benefit", left + truth))
        progress("settle", truth)
        running.plan(script.halves(hosts, time.time()))
        time.sleep(extent.warm_up)
        return {"benefit": found, "truth": _truth(running, rows, extent, progress)}


def _truth(
    running: World, rows: list[faults.Fault], extent: Extent, progress: Callable[[str, float], None]
) -> dict[str, Any]:
    half = len(running.hosts) // 2
    found = {}
    for number, fault in enumerate(rows):
        progress(fault.title, extent.left(len(rows) - number))
        pair = number % half, half + number % half
        row = faults.run(running, fault, pair, extent.fault)
        counts = {system: faults.count(row.truth, letters)._asdict() for system, letters in row.called.items()}
        found[fault.name] = {"title": fault.title, "counts": counts, **row._asdict()}
        time.sleep(extent.pause)
    return found


def _progress() -> Callable[[str, float], None]:
    """Print a line on stderr at the beginning of each part, and once a minute."""
    last: list[Any] = ["", 0.0]

    def show(part: str, left: float) -> None:
        now = time.monotonic()
        if part != last[0] or now > last[1] + 60.0:
            last[:] = part, now
            print(f"beside: {part}; {left / 60.0:.1f} min left", file=sys.stderr, flush=True)

    return show


def text(document: dict[str, Any]) -> list[str]:
    """The document as text."""
    parts = [tables.benefit(document), [""]] if document["benefit"] else []
    return [line for part in (*parts, tables.truth(document)) for line in part]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
