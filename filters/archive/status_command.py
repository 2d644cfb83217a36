"""``shardpulse archive status``: progress of the archive, and its contents.

Contents are listed by host.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from acquisition import help_text
from acquisition.config.endpoints import connect, with_addresses
from acquisition.config.settings import Settings
from acquisition.errors import EXIT_OK, EXIT_TEMPORARY, EXIT_UNBALANCED, DataError, PermissionRefused
from acquisition.link.layouts import read_layout
from acquisition.snapshot.reconcile import books, registered
from acquisition.snapshot.reconcile.books import Account
from acquisition.snapshot.reconcile.registered import ARCHIVE, Registered
from acquisition.terminal import printable
from acquisition.wire import archived
from acquisition.wire.archived import Archived

_COLUMNS = ("made", "archived", "gap", "pending")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this action."""
    help_text.add_shards(parser)
    parser.add_argument("--host", metavar="NAME", help="show one host, by name or hexadecimal id")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Show the progress of the archive and, for each host, made = archived + gap + pending, in samples since the
    archive has known it: gap is missing for good, pending waits in memory, in the streams or at the probe.

    Exit codes: 0 the books balance, 75 no archiver has ever reported, 76 they do not balance.
    """
    cluster = connect(with_addresses(settings.shards, options.shards))
    try:
        layout = read_layout(cluster)
        found = books.read(cluster, layout)
        for refusal in found.refusals:
            raise PermissionRefused(refusal)
        accounts = found.accounts
        readers = [row for row in registered.read(cluster, layout) if row.name == ARCHIVE]
        rows = _by_host(registered.read_archived(cluster, layout).values(), accounts)
    finally:
        cluster.close()
    if options.host:
        rows = [row for row in rows if options.host in (row["name"], row["host"])]
        if not rows:
            raise DataError(f"no host {options.host} in the archive")
    if options.json:
        print(json.dumps({"readers": [row.document() for row in readers], "hosts": rows}))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _text(readers, rows))
    if not readers:
        return EXIT_TEMPORARY
    return EXIT_UNBALANCED if any(row["difference"] for row in rows) else EXIT_OK


def _by_host(rows: Iterable[Archived], accounts: Iterable[Account]) -> list[dict[str, Any]]:
    """Sums of each host's resource sets, by name."""
    known = {(account.host, account.resource_set): account for account in accounts}
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        account = known.get((row.host, row.resource_set))
        unread = 0 if account is None else archived.unread(row, account.epoch, account.made)
        host = found.setdefault(
            row.host, {"host": f"{row.host:016x}", "name": "", **dict.fromkeys((*_COLUMNS, "difference"), 0)}
        )
        if account is not None:
            host["name"] = account.host_name or host["name"]
        for name in (*_COLUMNS, "difference"):
            host[name] += getattr(row, name) + (unread if name in ("made", "pending") else 0)
    return sorted(found.values(), key=lambda host: (host["name"], host["host"]))


def _text(readers: list[Registered], rows: list[dict[str, Any]]) -> Iterator[str]:
    if not readers:
        yield "no archiver is running: start `shardpulse archive run`"
    for row in readers:
        late = f", expired in {row.expired}" if row.expired else ""
        yield f"{row.behind_seconds:.0f} s behind in {row.partitions} partitions{late}"
        yield from [f"{printable(name)} follows {count}" for name, count in row.processes.items()]
        if row.trouble:
            yield f"waits: {printable(row.trouble)}"
    yield f"{'HOST':<24}{'MADE':>18}{'ARCHIVED':>18}{'GAP':>12}{'PENDING':>12}"
    for host in rows:
        figures = "".join(f"{host[name]:>{width},}" for name, width in zip(_COLUMNS, (18, 18, 12, 12), strict=True))
        wrong = f"  {host['difference']:,} UNACCOUNTED FOR" if host["difference"] else ""
        yield f"{printable(host['name'] or host['host']):<24.24}{figures}{wrong}"
