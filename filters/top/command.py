"""``shardpulse top``: live in a terminal; table, lines or JSON in a pipe.

Shows hosts by heat and the entities on them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import select
import sys
import time
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TextIO

from rich.console import Console

from acquisition import help_text
from acquisition.config import endpoints, metric_registry
from acquisition.config.settings import Shards
from acquisition.errors import (
    EXIT_OK,
    AdmissionError,
    ConfigError,
    DataError,
    ShardError,
    TemporaryError,
    UnavailableError,
)
from acquisition.link import local_shards
from acquisition.link.layouts import read_layout
from acquisition.log import SHARDS, Category, TroubleLog
from acquisition.model.identity import host_id
from acquisition.snapshot.verdict import exit_code, warn
from acquisition.terminal import say
from filters.top import columns, plain
from filters.top.contents import Observation, develop, shown
from filters.top.listings.entities import sets_of
from filters.top.listings.hosts import list_hosts
from filters.top.listings.listing import HOSTS, Listing
from filters.top.look import Look, speaks_utf8
from filters.top.loop import Session
from filters.top.plain import document
from filters.top.reading import Feed, Source, Wanted, pace_of, until_next
from filters.top.terminal import STOPS, Signals, Terminal
from filters.top.view import Level, Rows, View, level_of_host, level_of_set, visible_rows

_DESCRIPTION = """\
Show hosts by heat, the busiest first: smoothed CPU use (1 - idle - iowait), raw and smoothed history, memory,
invalid samples and age; below a host its VMs, or its processes if it has no VMs; below one of these its metrics.
All figures are of one coherent tick. A host without that tick is shown as late or down, with its age and
the reason and without figures: it is never mistaken for an idle one. Missing values are shown as `missing`.

In a terminal the screen is live: `?` shows all keys. In a pipe, or if the terminal is not capable
(TERM=dumb), one table is printed. NO_COLOR disables colours, a locale without UTF-8 disables bars."""

_EXAMPLES = """
shardpulse top                           live; Enter opens a host, / filters, s sorts, q quits
shardpulse top --host web-1              start with the VMs or processes of one host
shardpulse top --once --top 10           the ten hottest hosts as a table
shardpulse top --lines --filter 'web*'   a line per host and tick, for grep and logs
shardpulse top --json | jq -r '.rows[] | select(.mean > 0.9) | .name'
"""


def main(argv: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(argv)
    settings = metric_registry.load_checked(options.config)
    where = endpoints.with_addresses(settings.shards, options.shards)
    if options.wait:
        _wait(where, time.monotonic() + options.wait)
    local_shards.look(endpoints.seeds(where))  # report missing shards before taking the screen
    names = metric_registry.set_names()
    grace = settings.snapshot.grace_seconds

    def source() -> Source:
        return Source(settings, where, names, grace)

    look = Look(speaks_utf8(sys.stdout.encoding, os.environ) and not options.ascii)
    if options.json or options.once or (not options.lines and not _interactive(sys.stdout)):
        with source() as reading:
            return _once(reading, options, look, sys.stdout)
    if options.lines:
        with source() as reading:
            return _repeat(reading, options, look, sys.stdout, grace)
    view = View(_first_path(source, options))
    with Feed(source, options.interval, grace) as feed:
        return _live(feed, view, look, names)


def _wait(where: Shards, deadline: float) -> None:
    """Wait until the shards can be read. Raises the last error at the deadline."""
    log = TroubleLog(Category("top"))
    with contextlib.closing(endpoints.connect(where)) as cluster:
        while True:
            try:
                read_layout(cluster)
                return
            except (UnavailableError, TemporaryError, ConfigError) as error:
                if isinstance(error, AdmissionError) or time.monotonic() >= deadline:
                    raise
                log.fails(SHARDS, UnavailableError(f"waiting for shards: {error}"), patience=1.0)
            time.sleep(0.1)


def _interactive(out: TextIO) -> bool:
    """Whether there is a terminal with cursor positioning, and a keyboard."""
    return out.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def _live(feed: Feed, view: View, look: Look, names: Mapping[int, str]) -> int:
    console = Console(highlight=False, markup=False, emoji=False)
    with Signals() as signals, Terminal(sys.stdin.fileno(), sys.stdout.fileno(), signals, console) as terminal:
        return Session(feed, terminal, signals, view, look, names).run()


def _first_path(source: Callable[[], Source], options: argparse.Namespace) -> tuple[Level, ...]:
    """Initial levels of the screen: all hosts, or the requested one, if it exists."""
    top = Level(
        sort=options.sort or columns.CPU, backwards=options.reverse, pattern="" if options.host else options.filter
    )
    if not options.host:
        return (top,)
    number = _host_number(options.host)
    with source() as reading:
        _require_host(options.host, number, list_hosts(reading.read(Wanted()).snapshot))
    return top, level_of_host(number)._replace(pattern=options.filter)


def _once(source: Source, options: argparse.Namespace, look: Look, out: TextIO) -> int:
    """Write one table or document."""
    observation = source.read(Wanted(_host_number(options.host)))
    snapshot = observation.snapshot
    warn(snapshot, "shardpulse top", options.json)
    listing, rows = _chosen(observation, options)
    if options.json:
        json.dump(document(observation, listing, rows), out)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in plain.table(listing, rows, look))
    out.flush()
    return exit_code(snapshot)


def _repeat(source: Source, options: argparse.Namespace, look: Look, out: TextIO, grace: float) -> int:
    """Lines at every tick until a signal arrives; errors are reported and end nothing."""
    count, interval = 0, options.interval or 1.0
    log = TroubleLog(Category("top"))
    with Signals(STOPS) as signals:
        while True:
            try:
                observation = source.read(Wanted(_host_number(options.host)))
                interval = options.interval or pace_of(observation.snapshot)
                _print_lines(observation, options, look, out)
                log.over(SHARDS, "shards readable again")
            except (ShardError, TemporaryError) as error:
                log.fails(SHARDS, error, patience=0.0)
            count += 1
            if count == options.count or select.select([signals], [], [], until_next(interval, grace))[0]:
                return EXIT_OK


def _print_lines(observation: Observation, options: argparse.Namespace, look: Look, out: TextIO) -> None:
    if observation.snapshot.blocks:
        listing, rows = _chosen(observation, options)
        out.writelines(f"{line}\n" for line in plain.lines(listing, rows, options.host, look))
    out.writelines(f"{plain.shard_line(shard, look)}\n" for shard in observation.shards)
    for error in observation.snapshot.errors:
        say(f"shardpulse top: warning: {error}")
    out.flush()


def _chosen(observation: Observation, options: argparse.Namespace) -> tuple[Listing, Rows]:
    """The requested listing, and its selected rows in order."""
    level, number = Level(), _host_number(options.host)
    if number and observation.snapshot.blocks:
        _require_host(options.host, number, list_hosts(observation.snapshot))
        level = level_of_set(level_of_host(number), sets_of(observation.snapshot, number)[0])
    listing, _ = shown(develop(None, observation, View((level,))), level)
    if listing is None:
        raise TemporaryError(f"no data about host {options.host} yet")
    sorts = columns.SORTS[listing.kind]
    sort = options.sort if options.sort in sorts else sorts[0]
    rows = visible_rows(listing, sort, options.reverse, options.filter)
    return listing, rows[: options.top] if options.top else rows


def _host_number(name: str) -> int:
    """Identity of a host by its name, or from 16 hexadecimal digits; 0 for none."""
    if re.fullmatch("[0-9a-f]{16}", name):
        return int(name, 16)
    return host_id(name) if name else 0


def _require_host(name: str, number: int, hosts: Listing) -> None:
    if number not in hosts.ids:
        near = get_close_matches(name, list(hosts.names), 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`shardpulse top --once` lists hosts"
        raise DataError(f"unknown host {name!r}; {hint}")


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("top", _DESCRIPTION, _EXAMPLES)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="print one table (in a pipe this is the default)")
    how.add_argument("--lines", action="store_true", help="print self-contained lines at every tick")
    how.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--host", default="", metavar="NAME", help="show the VMs or processes of this host (name or id)"
    )
    parser.add_argument(
        "--filter", default="", metavar="TEXT",
        help="show rows whose name contains TEXT, or matches it if it contains * or ?; =late, =down, "
            "=current: by state",
    )  # fmt: skip
    parser.add_argument("--sort", choices=columns.SORTS[HOSTS], help="column to sort by (cpu)")
    parser.add_argument("--reverse", action="store_true", help="reverse the order")
    parser.add_argument(
        "--top", type=help_text.count, default=0, metavar="N", help="number of rows; 0: all (not for the live screen)"
    )
    parser.add_argument(
        "--interval",
        type=help_text.number(0.1, 3600),
        metavar="S",
        help="seconds between readings (default: the hosts' interval)",
    )
    parser.add_argument(
        "--count", type=help_text.count, default=0, metavar="N", help="with --lines: exit after N readings"
    )
    parser.add_argument("--ascii", action="store_true", help="use only ASCII, as in a locale without UTF-8")
    parser.add_argument(
        "--wait",
        type=help_text.seconds,
        default=0.0,
        metavar="S",
        help="seconds to wait for shards",
    )
    help_text.add_shards(parser)
    return parser
