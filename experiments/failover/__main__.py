"""Failover: outage and losses when a master is killed (root)."""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from acquisition.errors import UsageError
from acquisition.link.layouts import write_layout
from acquisition.shards.servers import grants
from acquisition.wire.layout import Layout
from experiments import testbed
from experiments.emulation.workload import Workload
from experiments.failover import storms
from experiments.failover.measure import Failover, measure
from experiments.harness import machine, outcome
from experiments.processes.needs import require
from experiments.processes.program import program
from experiments.testbed import ReplicatedCluster, Testbed

_TIMES = ("promoted", "first_write", "last_write", "first_readable", "last_readable")
_LIMIT_SECONDS = 5.0  #: from the kill to the first accepted write


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = outcome.parser(
        "failover",
        "Kill masters, each with a replica, in network namespaces and under load; measure the way back.",
        "Needs root and iproute2. Writes must flow within 5 s.",
        hosts=30, entities=10, metrics=15, repeats=5,
    )  # fmt: skip
    made.add_argument("--rate", type=float, default=5.0, metavar="HZ", help="frames per second and host (default 5)")
    made.add_argument(
        "--storms",
        action="store_true",
        help="instead: all hosts connect at once; a shard dies, comes back, ends all connections",
    )
    made.add_argument(
        "--generators",
        type=int,
        default=0,
        metavar="N",
        help="processes that emulate the hosts of --storms (default: one for each 2,000, at most one per core)",
    )
    return made


@program("failover")
def main(argv: list[str]) -> int:
    """Measure, print, and report whether the promises hold."""
    given = parser().parse_args(argv)
    if given.generators < 0:
        raise UsageError("--generators must not be negative")
    require(testbed.missing_for_shards)
    workload = Workload(given.hosts, given.entities, given.metrics, 1.0 / given.rate, seed=7)
    if given.storms:
        return outcome.conclude(storms.run(argv, workload, given.generators), given, storms.text)
    runs = _repeat(workload, given.repeats)
    document = _document(argv, runs)
    return outcome.conclude(document, given, _text)


def _repeat(workload: Workload, count: int) -> list[Failover]:
    runs = []
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shardpulse-failover-")))
        bed = stack.enter_context(Testbed(hosts=3))
        shards = stack.enter_context(testbed.start_cluster(bed, directory / "nodes", masters=3, replicas=1))
        for number in range(count):
            _make_whole(shards)
            runs.append(measure(shards, directory, workload, number))
            print(f"failover {number + 1} of {count}: {_times(runs[-1]._asdict())}", file=sys.stderr, flush=True)
    return runs


def _make_whole(shards: ReplicatedCluster) -> None:
    """Restore all nodes: alive, in their first roles, and empty except for the layout."""
    for node in shards.nodes:
        shards.revive(node)
    shards.fail_back()
    for node in shards.masters():
        node.call("FLUSHALL")
    with contextlib.closing(shards.connect(user=grants.OPERATOR)) as cluster:
        write_layout(cluster, *Layout())


def _document(argv: list[str], runs: list[Failover]) -> dict[str, Any]:
    medians = {name: round(statistics.median(getattr(run, name) for run in runs), 3) for name in _TIMES}
    worst = {name: round(max(getattr(run, name) for run in runs), 3) for name in _TIMES}
    failures = [problem for run in runs for problem in run.problems]
    late = worst["first_write"] > _LIMIT_SECONDS
    figures = {
        "machine": machine.describe(),
        "node_timeout_seconds": testbed.NODE_TIMEOUT,
        "repeats": len(runs),
        "seconds": medians,
        "worst_seconds": worst,
        "runs": [run._asdict() for run in runs],
    }
    missed = [f"a first write after {worst['first_write']} s"] if late else []
    return outcome.document("failover", argv, failures, figures, missed)


def _text(document: dict[str, Any]) -> list[str]:
    return [
        f"kill -9 of a master, medians of {document['repeats']}: {_times(document['seconds'])}",
        f"worst: {_times(document['worst_seconds'])}",
    ]


def _times(figures: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {figures[name]:.2f} s" for name in _TIMES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
