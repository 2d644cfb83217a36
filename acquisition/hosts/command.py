"""``shardpulse hosts``: list known and expired hosts, remove a host for good."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import closing

from acquisition import help_text
from acquisition.config import endpoints
from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, TemporaryError, UsageError
from acquisition.hosts import forgetting
from acquisition.hosts.forgetting import Listed
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.snapshot.visibility import roster
from acquisition.terminal import printable

_DESCRIPTION = """\
List current hosts and hosts that expired within the last 7 days. A host expires after [filter] expire_seconds
without samples and is then missing from all other output; if all hosts have expired, all output is blind.

`forget` removes hosts that are gone for good, such as decommissioned machines. Stop the host's probe first:
a host that is still sending is not removed. Its samples in an archive are kept."""

_EXAMPLES = """
shardpulse hosts                                     name, id, state, time of last sample
shardpulse hosts --json | jq -r '.[] | select(.state == "expired") | .name'
shardpulse hosts forget web-3                        remove a decommissioned host
"""
_PAUSE = 0.5  #: seconds between two checks of a host that may still send


def main(argv: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(argv)
    if options.action and not options.names:
        raise UsageError("expected host names: `shardpulse hosts forget NAME...`")
    settings = config.load(options.config)
    down_after = settings.snapshot.down_after_seconds
    with closing(endpoints.connect(endpoints.with_addresses(settings.shards, options.shards))) as cluster:
        if options.action is None:
            _show(forgetting.read(cluster, read_layout(cluster), down_after), options.json)
        else:
            _forget(cluster, options.names, down_after, time.monotonic() + options.wait)
    return EXIT_OK


def _forget(cluster: Cluster, names: Sequence[str], down_after: float, until: float) -> None:
    """Forget all of these hosts, or none, once they have stopped sending; wait until ``until`` (monotonic) at most."""
    layout = read_layout(cluster)
    while True:
        found = forgetting.read(cluster, layout, down_after)
        try:
            chosen = forgetting.chosen(found, names)
            break
        except TemporaryError:
            if time.monotonic() >= until:
                raise
        time.sleep(_PAUSE)
    for host in chosen:
        forgetting.forget(cluster, layout, host.host)
        print(f"forgot {printable(host.name)} ({host.host:016x}), seen last {_moment(host.last)}")


def _show(hosts: Sequence[Listed], as_json: bool) -> None:
    if as_json:
        rows = [
            {"id": f"{one.host:016x}", "name": one.name, "state": one.state, "last": round(one.last, 3) or None}
            for one in hosts
        ]
        json.dump(rows, sys.stdout)
        print()
        return
    width = max((len(printable(one.name)) for one in hosts), default=0)
    for one in hosts:
        print(f"{printable(one.name):<{width}}  {one.host:016x}  {one.state:<8} {_moment(one.last)}")


def _moment(last: float) -> str:
    return roster.moment(last) if last else "never"


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("hosts", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("action", nargs="?", choices=["forget"], help="remove hosts that are gone for good")
    parser.add_argument("names", nargs="*", metavar="NAME", help="host name or hexadecimal id")
    parser.add_argument(
        "--wait",
        type=help_text.seconds,
        default=0.0,
        metavar="S",
        help="forget: seconds to wait for the host to stop sending",
    )
    parser.add_argument("--json", action="store_true", help="print the list as one JSON document")
    help_text.add_shards(parser)
    return parser
