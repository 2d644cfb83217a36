"""Long run: memory stays flat, and vanished hosts disappear.

The machinery is that of ``experiments.ingest``: emulated hosts through the product's writer, real shards,
the product's filter. Added to it: hosts that vanish (``cohorts``), a real probe whose
processes come and go with the same pids (``local_probe``), and a row of figures every few
seconds (``series``).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from acquisition.errors import UsageError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model.identity import host_id
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.reconcile.books import Account, read_books
from acquisition.wire.layout import Layout
from experiments.harness import machine, outcome, pipeline
from experiments.harness.balance import of_hosts
from experiments.harness.options import Options
from experiments.harness.pipeline import Pipeline
from experiments.long_run import comers, flatness, local_probe, series
from experiments.long_run.cohorts import Cohorts, forgotten_names, left_over
from experiments.processes import needs
from experiments.processes.control import Child, python
from experiments.processes.program import program

_JUDGED = ("probe_rss", "filter_rss", "shards_rss", "shards_used_memory")
_JUDGED_TOO = ("archive_rss", "serve_rss")  #: with --comers
#: With --comers: filter and shards keep hosts until they expire, ten minutes, and sizes follow their number.
_COMERS_SETTLE, _COMERS_TOLERANCE = 600.0, 0.05
_ROWS = 360
_ENOUGH = 10  #: replacements of every process after which one must have been seen
_SHORTEST_EXPIRY = 12.0  #: parts take some seconds to start; hosts silent meanwhile are not forgotten
_HELD_SECONDS = 60.0
_SETTLE_SECONDS = 10.0
_LONG = 1800.0  #: from this duration on, expiry is the product's own

#: Why the run does not count, its figures, its rows.
Measured = tuple[list[str], dict[str, Any], list[dict[str, float]]]

_DESCRIPTION = """\
Run the pipeline for long, with everything that comes and goes: 100 hosts of which some vanish and others
take their place, VMs that are replaced (at least 10% an hour), a real probe whose processes are
replaced by others with the same pid. Memory of probe, shards and filter is recorded every few seconds.

The verdict: each must be flat, that is, the median of the last tenth of the run is at most 2% above the
median of as long a window right after the first five minutes (a third of a short run), and so is the
rise of a fitted line; the keys of vanished hosts and the names of vanished VMs are gone; nothing is
lost; random entities equal the scalar model."""

_EXAMPLES = """\
examples:
  python -m experiments.long_run --seconds 3600 --json --save long-run
      50,500 samples/s for an hour; writes long-run.json, .csv and .png to experiments/results
  python -m experiments.long_run --seconds 2400 --comers 20 --json --save comers
      with 5 hosts and 15 VMs a second that come for 20 s and never again, an archiver and a service
  python -m experiments.long_run --seconds 120
      a smoke test: expiry is shortened, figures this short are no verdict on leaks"""


@program("long_run")
def main(argv: list[str]) -> int:
    """Run, print, save; 0 if every check passed."""
    given = parse(argv)
    if given.save:
        needs.require(needs.plots)
    failures, figures, rows = measure(given)
    document = outcome.document("long_run", argv, failures, figures)
    if given.save:
        from experiments.long_run.plot import draw

        series.write(outcome.RESULTS / f"{given.save}.csv", rows)
        draw(rows, document, outcome.RESULTS / f"{given.save}.png")
    return outcome.conclude(document, given, text)


def parse(argv: list[str]) -> argparse.Namespace:
    """The options, completed with those derived from the length of the run. Raises UsageError."""
    parser = outcome.parser(
        "long_run", _DESCRIPTION, _EXAMPLES, "NAME.json, NAME.csv and NAME.png",
        seconds=3600.0, hosts=100, entities=101, metrics=5, shards=0, seed=1,
    )  # fmt: skip
    add = parser.add_argument
    add("--churn", type=float, default=0.1, metavar="SHARE", help="VMs replaced in an hour, at least (default 0.1)")
    add("--vanishing", type=int, default=4, metavar="N", help="hosts that vanish together (default 4)")
    add("--cohorts", type=int, default=5, metavar="N", help="so often, others take their place (default 5)")
    add("--processes", type=int, default=20, metavar="N", help="processes that the real probe watches (default 20)")
    add("--replace", type=float, default=3.0, metavar="S", help="one of them is replaced every S seconds (default 3)")
    add("--expire", type=float, metavar="S", help="when hosts are forgotten (default: the product's 600; a tenth "
        "of a run shorter than half an hour)")  # fmt: skip
    add("--every", type=float, metavar="S", help=f"seconds between two rows (default: {_ROWS} rows, at least 1)")
    add("--comers", type=float, default=0.0, metavar="N", help="hosts and VMs a second that come for a while, a "
        "quarter of them hosts; archiver and service run as well (default 0: none of these)")  # fmt: skip
    given = parser.parse_args(argv)
    outcome.require_positive(
        given, "seconds", "hosts", "entities", "metrics", "vanishing", "cohorts", "processes", "replace"
    )
    if given.vanishing >= given.hosts:
        raise UsageError(f"--vanishing {given.vanishing} leaves none of {given.hosts} hosts that stays")
    given.expire = given.expire or (600.0 if given.seconds >= _LONG else max(_SHORTEST_EXPIRY, given.seconds / 10))
    given.every = given.every or max(1.0, given.seconds / _ROWS)
    return given


def measure(given: argparse.Namespace) -> Measured:
    """One run: its failures, figures and rows. Raises ShardpulseError if a part does not start, or ends."""
    with tempfile.TemporaryDirectory(prefix="shardpulse-long-run-") as name:
        directory = Path(name)
        config = directory / "filter.toml"
        config.write_text(f"[filter]\ntau_seconds = 5.0\nexpire_seconds = {given.expire}\n")
        options = Options(
            hosts=given.hosts - given.vanishing,
            entities=given.entities,
            metrics=given.metrics,
            churn=given.churn,
            seconds=given.seconds,
            shards=given.shards,
            seed=given.seed,
            held_seconds=_HELD_SECONDS,
            filter_config=str(config),
        )
        with (
            pipeline.running(options, directory) as parts,
            local_probe.load(given.processes, given.replace, directory) as load,
            local_probe.running([str(address) for address in parts.shards.addresses], directory) as probe,
            _cohorts(given, parts, directory) as cohorts,
            _readers(given, parts, directory) as readers,
            comers.running(parts.shards.addresses, given.comers) as coming,
        ):
            return _run(given, parts, load, probe, cohorts, readers, coming)


@contextmanager
def _readers(given: argparse.Namespace, parts: Pipeline, directory: Path) -> Iterator[dict[str, Child]]:
    """Archiver and service by name; none without --comers."""
    config = directory / "readers.toml"
    config.write_text(f'[serve]\nbind = "127.0.0.1:0"\n[archive]\nurl = "{directory}/archive.db"\n')
    addresses = ",".join(map(str, parts.shards.addresses))
    options = ("--config", str(config), "--shards", addresses)
    commands = {"archive": ("archive", "run", *options), "serve": ("serve", *options)} if given.comers else {}
    with ExitStack() as stack, open(os.devnull, "wb") as nothing:
        yield {
            name: stack.enter_context(Child(name, python("acquisition", *words), stdout=nothing))
            for name, words in commands.items()
        }


@contextmanager
def _cohorts(given: argparse.Namespace, parts: Pipeline, directory: Path) -> Iterator[Cohorts]:
    addresses = [str(address) for address in parts.shards.addresses]
    layout = read_layout(parts.cluster)

    def task(hosts: range) -> dict[str, Any]:
        first = pipeline.generator_task(parts.options, addresses, (hosts.start, hosts.stop), directory / "none.json")
        return first | {"checked": []}

    cohorts = Cohorts(parts.options.hosts, given.vanishing, task, lambda: read_books(parts.cluster, layout))
    with ExitStack() as stack:
        stack.callback(cohorts.close)
        cohorts.begin()
        yield cohorts


def _run(
    given: argparse.Namespace,
    parts: Pipeline,
    load: Child,
    probe: Child,
    cohorts: Cohorts,
    readers: dict[str, Child],
    coming: Child | None,
) -> Measured:
    watched = local_probe.Watched(parts.cluster, read_layout(parts.cluster))
    parts.tell("start")
    parts.measure_freshness()
    began = time.monotonic()
    rows: list[dict[str, float]] = []
    others = {"probe": probe, **readers}
    roles = parts.roles | {name: [child.pid] for name, child in others.items()}
    next_row, next_cohort = given.every, given.seconds / given.cohorts
    while (now := time.monotonic() - began) < given.seconds:
        if now >= next_cohort:
            cohorts.end()
            cohorts.begin()
            next_cohort += given.seconds / given.cohorts
        if now >= next_row:
            rows.append(series.row(now, roles, parts.cluster))
            watched.look()
            next_row += given.every * (1 + (now - next_row) // given.every)  # missed rows are left out
        parts.run(max(0.0, min(next_row, next_cohort, given.seconds) - (time.monotonic() - began)))
        cohorts.check()
        for child in (*others.values(), *([coming] if coming else [])):
            child.check()
    ran = time.monotonic() - began
    came = comers.stop(coming)
    failures, figures = _finish(given, parts, load, probe, cohorts, watched, rows, ran)
    return failures, figures | came, rows


def _settled(cluster: Cluster, layout: Layout, host: int) -> list[Account]:
    """All accounts, once the filter has applied all frames of a host; the current ones if it does not."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        accounts = read_books(cluster, layout)
        if not any(account.pending for account in accounts if account.host == host) or time.monotonic() > deadline:
            return accounts
        time.sleep(0.05)


def _finish(
    given: argparse.Namespace,
    parts: Pipeline,
    load: Child,
    probe: Child,
    cohorts: Cohorts,
    watched: local_probe.Watched,
    rows: list[dict[str, float]],
    ran: float,
) -> tuple[list[str], dict[str, Any]]:
    """End everything in order, look for remains, and judge."""
    layout = read_layout(parts.cluster)
    due, left = left_over(parts.cluster, layout, cohorts.gone, given.expire)
    freshness = parts.freshness()
    cohorts.end()
    reports = parts.finish()
    load.send({"do": "stop"})
    replaced = load.receive(30.0)
    probe.stop()
    probe_host = host_id(local_probe.HOST)
    accounts = _settled(parts.cluster, layout, probe_host)
    steady = of_hosts(accounts, range(parts.options.hosts))
    own = [account for account in accounts if account.host == probe_host]
    made = sum(report["counts"]["samples"] for report in reports)
    vanished = sum(gone.made for gone in cohorts.gone)
    blocks = [block for block in SnapshotReader(parts.cluster).latest().blocks if block.host_id != probe_host]
    _, verdict = parts.verify(reports)
    figures = {
        "seconds": round(ran, 1),
        "samples_per_second": round((made + vanished) / ran),
        "samples_made": made + vanished,
        "samples_lost": sum(account.lost for account in steady) + sum(gone.lost for gone in cohorts.gone),
        "samples_unaccounted": made
        - sum(account.before + account.applied + account.lost for account in steady)
        + sum(gone.unaccounted for gone in cohorts.gone),
        "probe_samples_made": sum(account.made for account in own),
        "probe_samples_lost": sum(account.lost for account in own),
        "hosts_vanished": sum(len(gone.hosts) for gone in cohorts.gone),
        "hosts_expired": due,
        "keys_left_over": len(left),
        "names_left_over": forgotten_names(parts.cluster, layout, blocks),
        "processes_replaced": replaced["replaced"],
        "processes_replaced_with_same_pid": replaced["same_pid"],
        "pids_seen_with_new_identity": watched.reused,
        "processes_in_table": watched.rows,
        "mismatches": verdict.mismatches,
        "checked_samples": verdict.samples,
        **freshness,
    }
    times = series.column(rows, "seconds") if rows else []
    columns = {name: series.column(rows, name) for name in _judged(given) if rows}
    most, tolerance = (
        (_COMERS_SETTLE, _COMERS_TOLERANCE) if given.comers else (flatness.SETTLING_SECONDS, flatness.TOLERANCE)
    )
    memory = flatness.verdicts(times, columns, given.seconds, most, tolerance)
    failures = _failures(given, figures, memory, left, [report["drained"] for report in reports])
    return failures, {
        **figures,
        "expire_seconds": given.expire,
        "settling_seconds": flatness.settling(given.seconds, most),
        "memory": memory,
        "examples": [*left[:10], *verdict.examples[:5]],
        "machine": machine.describe(),
    }


def _judged(given: argparse.Namespace) -> tuple[str, ...]:
    return (*_JUDGED, *_JUDGED_TOO) if given.comers else _JUDGED


def _failures(
    given: argparse.Namespace,
    figures: dict[str, Any],
    memory: dict[str, dict[str, float | bool]],
    left: list[str],
    drained: list[bool],
) -> list[str]:
    """Why the run does not count; empty if it does."""
    found = [
        f"{name} is not flat: {row['early_bytes']:,.0f} to {row['late_bytes']:,.0f} bytes, "
        f"{row['growth']:+.1%} by medians, {row['fitted_growth']:+.1%} by the fitted line"
        for name, row in memory.items()
        if not row["flat"]
    ]
    found += [f"{name} has too few rows to be judged" for name in _judged(given) if name not in memory]
    if left:
        found.append(f"{len(left)} keys of vanished hosts are left over: {', '.join(left[:3])}")
    if not all(drained):
        found.append("not everything was smoothed at the end")
    for name in ("samples_lost", "samples_unaccounted", "probe_samples_lost", "names_left_over", "mismatches"):
        if figures[name]:
            found.append(f"{name} is {figures[name]} and should be 0")
    if not figures["probe_samples_made"] or figures["processes_in_table"] < given.processes:
        found.append(f"the real probe was not seen with its {given.processes} processes")
    if (
        figures["processes_replaced_with_same_pid"] > _ENOUGH * given.processes
        and not figures["pids_seen_with_new_identity"]
    ):
        found.append("no reused pid was seen with a new identity")
    return found


def text(document: dict[str, Any]) -> list[str]:
    """The document as text."""
    hidden = ("memory", "machine", "failures", "missed", "examples", "command", "commit", "date", "executable")
    lines = [f"{name:34} {value}" for name, value in document.items() if name not in hidden]
    return lines + [
        f"{name:20} {row['early_bytes']:>14,.0f} -> {row['late_bytes']:>14,.0f} bytes  medians {row['growth']:+.2%}  "
        f"fitted {row['fitted_growth']:+.2%} ({row['slope_per_hour']:+.2%} per hour)"
        for name, row in document["memory"].items()
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
