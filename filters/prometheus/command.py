"""``shardpulse metrics``: Prometheus output without a running service."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path

from acquisition import help_text
from acquisition.config import endpoints
from acquisition.config.metric_registry import load_checked
from acquisition.config.settings import Settings
from acquisition.errors import CannotCreateError
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.verdict import exit_code, warn
from acquisition.status import health
from acquisition.status.health import Health
from filters.prometheus.naming import FIGURES, MEAN
from filters.prometheus.samples import HOSTS, INPUTS, Options
from filters.prometheus.scrape import Tables, render
from filters.prometheus.syntax import CLASSIC, OPENMETRICS

_DESCRIPTION = """\
Print smoothed samples and pipeline health for Prometheus, in OpenMetrics format, or in the older text
format with --classic. `shardpulse serve` provides the same at /metrics.

One scrape is one coherent snapshot: all rows of one tick. Missing values are absent, never 0: a late host
has an age and no samples. With --latest each row is its host's newest tick.
docs/prometheus.md lists the families; alert rules and a dashboard are in deploy/."""

_EXAMPLES = """
shardpulse metrics                                  all series
shardpulse metrics --hosts-only                     without processes and VMs
shardpulse metrics --figure mean deviation          also how much each entity varies
shardpulse metrics --inputs all                     decision inputs of processes and VMs too
shardpulse metrics --classic | promtool check metrics
shardpulse metrics --classic --output /var/lib/prometheus/node-exporter/shardpulse.prom
"""


def main(argv: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(argv)
    snapshot, condition, tables = _read(load_checked(options.config), options)
    chosen = Options(entities=not options.hosts_only, figures=tuple(options.figure), inputs=options.inputs)
    text = render(snapshot, condition, chosen, CLASSIC if options.classic else OPENMETRICS, tables=tables)
    if options.output is None and sys.stdout.isatty():
        sys.stdout.write(text.decode())
    elif options.output is None:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    else:
        _replace(Path(options.output), text)
    warn(snapshot, "shardpulse metrics", goes_on=True)
    return exit_code(snapshot)


def _read(settings: Settings, options: argparse.Namespace) -> tuple[Snapshot, Health, Tables]:
    shards, limits = endpoints.with_addresses(settings.shards, options.shards), settings.snapshot
    with (
        SnapshotReader(endpoints.connect(shards), limits.grace_seconds, limits.down_after_seconds) as reader,
        Members(endpoints.seeds(shards), endpoints.credentials(shards), shards.timeout_seconds) as members,
    ):
        snapshot = reader.latest() if options.latest else reader.coherent()
        names = {block.set_id: block.resource_set for block in snapshot.blocks}
        tables = reader.inputs(snapshot)
        return snapshot, health.read(reader.cluster, members, names, limits.down_after_seconds), tables


def _replace(path: Path, text: bytes) -> None:
    """Replace a file atomically: readers see the old or the new one whole, and may be another user."""
    name = ""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            name = file.name
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
        os.replace(name, path)
    except OSError as error:
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name)
        raise CannotCreateError(f"--output: cannot write {path}: {error.strerror or error}") from error


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("metrics", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--hosts-only", action="store_true", help="omit series of processes and VMs")
    parser.add_argument(
        "--figure", nargs="+", choices=FIGURES, default=[MEAN], metavar="FIGURE",
        help=f"figures of each process and VM: {', '.join(FIGURES)} (default: {MEAN}); hosts have all",
    )  # fmt: skip
    parser.add_argument(
        "--inputs", choices=INPUTS, default=HOSTS,
        help="decision inputs (k of n above the threshold, CUSUM, median …) of hosts, of all, or none (default: hosts)",
    )  # fmt: skip
    parser.add_argument("--latest", action="store_true", help="the newest tick of each row, instead of one for all")
    parser.add_argument("--classic", action="store_true", help="use the classic text format instead of OpenMetrics")
    parser.add_argument("--output", metavar="FILE", help="replace FILE atomically instead of printing")
    help_text.add_shards(parser)
    return parser
