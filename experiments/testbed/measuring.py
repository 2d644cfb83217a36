"""Measurement of a testbed: age of values per host, and balance of samples."""

from __future__ import annotations

import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from acquisition.link.layouts import read_layout
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.reconcile import books
from experiments.testbed.running import Pipeline
from experiments.testbed.topology import Host, Topology

_LOOK_SECONDS = 0.2
_COUNTS = ("made", "applied", "invalid", "lost", "pending")


class Seen(NamedTuple):
    """Ages of values in seconds by host name, one per look; counts of the states at the last look."""

    ages: Mapping[str, Sequence[float]]
    states: Mapping[str, Mapping[str, int]]


def watch(pipeline: Pipeline, reader: SnapshotReader, seconds: float) -> Seen:
    """Look five times a second for ``seconds``. Raises ShardpulseError if a part ends meanwhile."""
    ages: dict[str, list[float]] = defaultdict(list)
    states: dict[str, dict[str, int]] = {}
    members, end = pipeline.members, time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        states = defaultdict(lambda: defaultdict(int))
        for block in reader.latest().blocks:
            machine = members.get((block.host_id, block.set_id))
            if machine is not None:
                states[machine.host.name][block.state] += 1
                if math.isfinite(block.age_seconds):
                    ages[machine.host.name].append(block.age_seconds)
        pipeline.check()
        time.sleep(max(0.0, began + _LOOK_SECONDS - time.monotonic()))
    return Seen(ages, states)


def accounts(pipeline: Pipeline) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Counts of samples by host name, and reasons why they do not balance. Raises ShardpulseError."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_COUNTS, 0))
    with contextlib.closing(pipeline.connect()) as cluster:
        found = books.read(cluster, read_layout(cluster))
    for account in found.accounts:
        machine = pipeline.members.get((account.host, account.resource_set))
        if machine is not None:
            for name in _COUNTS:
                counts[machine.host.name][name] += getattr(account, name)
    return counts, found.faults


def rows(topology: Topology, seen: Seen, counts: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Known facts of each host, as JSON objects; figures only for those that sample."""
    made = []
    for host in topology.hosts:
        row: dict[str, Any] = {"host": host.name, "runs": _runs(host)}
        if host.samples:
            ages = seen.ages.get(host.name, ())
            p50, p95 = np.percentile(ages, [50, 95]).round(3).tolist() if ages else (None, None)
            row |= {"age_p50_seconds": p50, "age_p95_seconds": p95, "readings": len(ages)}
            row |= {"states": dict(seen.states.get(host.name, {})), **counts.get(host.name, {})}
        made.append(row)
    return made


def _runs(host: Host) -> list[str]:
    kind = host.kind
    found = [role for role in ("shard", "filter", "probe") if getattr(kind, role)]
    return [*found, f"{kind.emulated} emulated"] if kind.emulated else found


def table(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows as text."""
    lines = [f"{'host':<20} {'runs':<18} {'age p50':>8} {'p95':>8} {'made':>10} {'lost':>6} {'pending':>8}  state"]
    for row in found:
        line = f"{row['host']:<20} {', '.join(row['runs']):<18}"
        if "readings" in row:
            line += f" {_seconds(row['age_p50_seconds']):>8} {_seconds(row['age_p95_seconds']):>8}"
            line += "".join(
                f" {row.get(name, '-'):>{width}}" for name, width in (("made", 10), ("lost", 6), ("pending", 8))
            )
            states = row["states"]
            told = (
                next(iter(states), "-") if len(states) < 2 else ", ".join(f"{n} {state}" for state, n in states.items())
            )
            line += f"  {told}"
        lines.append(line.rstrip())
    return lines


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
