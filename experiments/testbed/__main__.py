"""Testbed from a TOML file, in network namespaces (root) or over ssh.

Starts shards, filters, probes and emulated hosts on the hosts of FILE, waits until all of them are current, and prints
how old their values are to a reader on this machine, and what became of all samples. Then nothing of it is left.
experiments/testbed/topologies has those of the paper's runs; a testbed of your own:

    [hosts.store]
    shard = true
    filter = true

    [hosts.east]
    count = 8
    probe = true
    link = { delay_seconds = 0.02, loss = 0.001, rate_bits_per_second = 1e8 }
    clock_offset_seconds = -3.0
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acquisition.snapshot import SnapshotReader
from experiments import testbed
from experiments.harness import outcome
from experiments.processes import access, temporary
from experiments.processes.needs import require
from experiments.processes.program import program
from experiments.testbed import capability, machines, measuring, remote, running, topology
from experiments.testbed.topology import Topology

_CURRENT_SECONDS, _CURRENT_SECONDS_PER_HOST = 60.0, 2.0
_EXAMPLES = """examples:
  python -m experiments.testbed experiments/testbed/topologies/two-sites.toml
  python -m experiments.testbed mine.toml --seconds 600 --json
  python -m experiments.testbed mine.toml --inventory site.yml     the same on real machines, found by their names"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = outcome.parser("testbed", __doc__ or "", _EXAMPLES, seconds=20.0)
    made.add_argument("file", type=Path, metavar="FILE", help="the testbed (TOML)")
    told = "run on machines of an Ansible inventory, over ssh; their links and clocks stay as they are"
    made.add_argument("--inventory", type=Path, metavar="INVENTORY", help=told)
    told = "Python on those machines, with hiredis, msgspec and numpy (default %(default)s)"
    made.add_argument("--python", default=remote.PYTHON, metavar="PATH", help=told)
    return made


@program("testbed")
def main(argv: list[str]) -> int:
    """Run, print, and report whether all hosts were current and the counts balance."""
    given = parser().parse_args(argv)
    outcome.require_positive(given, "seconds")
    wanted = topology.load(given.file)
    if given.inventory:
        require(access.missing, remote.missing)
        skipped, notes = dict[str, str](), _left_as_they_are(wanted)
    else:
        require(testbed.missing_for_shards)
        skipped, notes = _impossible(wanted), []
        wanted = wanted.without(skipped, given.file)
    for line in _remarks(skipped, notes):
        print(f"testbed: {line}", file=sys.stderr, flush=True)
    figures, failures = _run(wanted, given)
    figures = {"topology": str(given.file), "skipped": skipped, "notes": notes, **figures}
    return outcome.conclude(outcome.document("testbed", argv, failures, figures), given, text)


def _run(wanted: Topology, given: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """The figures, and the reasons why they do not count."""
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(temporary.made())
        if given.inventory:
            laid = remote.machines(wanted, given.inventory, given.python)
        else:
            laid = machines.local(wanted, place)
        pipeline = running.start(wanted, stack.enter_context(laid), place)
        with SnapshotReader(pipeline.connect()) as reader:
            took = pipeline.wait_current(reader, _CURRENT_SECONDS + len(wanted.hosts) * _CURRENT_SECONDS_PER_HOST)
            seen = measuring.watch(pipeline, reader, given.seconds)
        undrained = pipeline.stop_emulated()
        counts, faults = measuring.accounts(pipeline)
    failures = [f"the emulated hosts of {undrained} machines could not send all they had made"] if undrained else []
    rows = measuring.rows(wanted, seen, counts)
    return {"seconds": given.seconds, "current_after_seconds": round(took, 2), "hosts": rows}, [*failures, *faults]


def text(document: Mapping[str, Any]) -> list[str]:
    """The document as text."""
    current = f"all hosts were current after {document['current_after_seconds']} s, then {document['seconds']:g} s:"
    return [current, *measuring.table(document["hosts"]), *_remarks(document["skipped"], document["notes"])]


def _remarks(skipped: Mapping[str, str], notes: list[str]) -> list[str]:
    return [*(f"SKIPPED {name}: {why}" for name, why in skipped.items()), *notes]


def _impossible(wanted: Topology) -> dict[str, str]:
    """Hosts that are not possible on this machine, each with the reason."""
    late = [host.name for host in wanted.hosts if host.kind.clock_offset_seconds]
    lack = capability.missing_clocks() if late else ""
    return dict.fromkeys(late, lack) if lack else {}


def _left_as_they_are(wanted: Topology) -> list[str]:
    """Parts of a topology that do not apply to machines of an inventory."""
    links = sum(host.kind.link != topology.Conditions() for host in wanted.hosts)
    clocks = sum(host.kind.clock_offset_seconds != 0 for host in wanted.hosts)
    found = [f"links of {links} hosts are left as they are there"] if links else []
    return [*found, f"clocks of {clocks} hosts are left as they are there"] if clocks else found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
