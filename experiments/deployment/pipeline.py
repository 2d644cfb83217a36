"""Row ``pipeline``: deployment on three bare hosts, a rerun, and a dry run.

The latter two change nothing.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.deployment import scene
from experiments.hosts.site import NAMES, changed

MOST_SECONDS, MOST_SECONDS_AGAIN, MOST_CALLS = 240.0, 40.0, 20
#: Beginning of a difference in the output of ``--diff``.
_DIFFERENCE = re.compile(r"^(?:--- before|\+\+\+ after|@@ )", re.MULTILINE)


def measure(given: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """The row. Raises ShardpulseError."""
    cached = given.packages == "cached"
    with scene.bare(directory, NAMES, installed=not cached, internet=cached) as site:
        if cached:
            scene.fetch(site)
        first = scene.played(site, "site.yml")
        again = [scene.played(site, "site.yml") for _ in range(given.repeats)]
        dry = scene.played(site, "site.yml", "--check", "--diff")
    return {
        "packages": given.packages,
        "first": first.document(),
        "again": [run.document() for run in again],
        "dry": dry.document() | {"changed": changed(dry.done), "differences": differences(dry.done.stdout)},
    }


def differences(said: str) -> int:
    """Number of file differences in the output of a run with ``--diff``."""
    return len(_DIFFERENCE.findall(said))


def missed(row: Mapping[str, Any]) -> list[str]:
    """The goals missed by the row, in words."""
    found = _too_much("bare hosts to verified pipeline", row["first"]["seconds"], MOST_SECONDS, "s")
    for run in row["again"]:
        found += _too_much("a second run", run["seconds"], MOST_SECONDS_AGAIN, "s")
        for host, calls in run["calls"].items():
            found += _too_much(f"a second run, remote calls of {host}", calls, MOST_CALLS, "")
        found += _changes("a second run", run["changed"])
    found += _changes("a dry run", row["dry"]["changed"])
    if row["dry"]["differences"]:
        found.append(f"a dry run shows {row['dry']['differences']} differences")
    return found


def text(row: Mapping[str, Any]) -> list[str]:
    """The row as text."""
    lines = [f"bare hosts to verified pipeline ({row['packages']} packages): {_run(row['first'])}"]
    lines += _shares(row["first"])
    for run in row["again"]:
        lines.append(f"again: {_run(run)}, changed {sum(run['changed'].values())}")
    lines += _shares(row["again"][-1])
    dry = row["dry"]
    return [*lines, f"--check --diff: {_run(dry)}, changed {sum(dry['changed'].values())}, "
                    f"differences {dry['differences']}"]  # fmt: skip


def _run(run: Mapping[str, Any]) -> str:
    calls: Sequence[int] = list(run["calls"].values())
    return (
        f"{run['seconds']:.1f} s, controller {run['controller_cpu_seconds']:.1f} s of CPU, "
        f"remote calls per host {min(calls)} to {max(calls)}"
    )


def _shares(run: Mapping[str, Any]) -> list[str]:
    told = [", ".join(f"{name or '(none)'} {seconds:.1f}" for name, seconds in run[kind].items() if seconds >= 0.1)
            for kind in ("plays", "roles")]  # fmt: skip
    return [f"  plays: {told[0]}", f"  roles: {told[1]}"]


def _too_much(what: str, value: float, most: float, unit: str) -> list[str]:
    return [f"{what}: {value:g} {unit}".rstrip() + f", more than {most:g}"] if value > most else []


def _changes(what: str, changed_hosts: Mapping[str, int]) -> list[str]:
    some = {name: count for name, count in changed_hosts.items() if count}
    return [f"{what} changes {some}"] if some else []
