"""Health of the pipeline, collected in one pass."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from acquisition.errors import PermissionRefused, ShardError, ShardpulseError, TemporaryError
from acquisition.link import happenings
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model.codes import WITHOUT_VALUE, name_of
from acquisition.shards.servers.status import ShardStatus
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot.reconcile import books, registered
from acquisition.snapshot.reconcile.balance import ENDED
from acquisition.snapshot.reconcile.books import Account, Books, Totals
from acquisition.snapshot.reconcile.registered import Registered
from acquisition.snapshot.visibility import roster
from acquisition.snapshot.visibility.roster import Roster
from acquisition.snapshot.visibility.workers import Lag, Workers, read_lags, read_workers
from acquisition.status import recent_events, shards
from acquisition.status.finding import (
    DOWN,
    Finding,
    RecentEvent,
    of_books,
    of_events,
    of_hosts,
    of_probes,
    of_regressions,
    of_roster,
    of_sources,
)
from acquisition.status.part_findings import (
    of_archived,
    of_clocks,
    of_filter,
    of_readers,
    of_refusals,
    of_risks,
    of_seeds,
    of_shards,
)
from acquisition.wire import regressions
from acquisition.wire.archived import Archived
from acquisition.wire.regressions import Regression
from acquisition.wire.status import Status

_WITHOUT_VALUE = tuple(map(name_of, WITHOUT_VALUE))


class Freshness(NamedTuple):
    """Ages in seconds of the newest applied samples of all resource sets, by this machine's clock."""

    p50: float
    p99: float
    worst: float


class Health(NamedTuple):
    """The condition at one time. A field that could not be read is None, never empty or 0; a finding has the reason. If
    some partitions could not be read (``unread``), the figures are of the others."""

    wall: float
    shards: list[ShardStatus]
    lags: list[Lag] | None
    workers: Workers | None
    books: Books | None
    totals: Totals | None
    freshness: Freshness | None  #: None: there are no samples, or that is unknown
    findings: list[Finding]
    readers: Sequence[Registered] | None = ()  #: of the raw streams, beside the filter
    archived: Mapping[tuple[int, int], Archived] = {}  #: the archive's books by (host, resource set)
    roster: Roster | None = None  #: None: it could not be read

    @property
    def accounts(self) -> list[Account]:
        """Accounts that could be read."""
        return self.books.accounts if self.books is not None else []

    @property
    def reports(self) -> Mapping[int, Status]:
        """The probes' own accounts by host, as far as readable."""
        return self.books.statuses if self.books is not None else {}

    @property
    def unread(self) -> int:
        """Number of partitions missing in the books; 0 also if there are no books at all."""
        return len(self.books.unreadable) if self.books is not None else 0

    @property
    def blind(self) -> str:
        """Why no host at all can be seen."""
        return blindness(self.roster, self.books.accounts) if self.books is not None else ""


def read(
    cluster: Cluster,
    members: Members,
    set_names: Mapping[int, str],
    down_after: float = 10.0,
    wall: Callable[[], float] = time.time,
) -> Health:
    """Read everything; ``set_names`` are resource sets by number. Anything unreadable is a finding, as are refusals of
    a shard to let this user read.

    Raises UnavailableError if no shard answers, ConfigError if they hold no layout, PermissionRefused for what all
    shards refuse.
    """
    before = wall()
    rows = shards.read(members)
    nobodies = shards.strangers(members, rows)
    after = wall()
    found: Books | None = None
    lags: list[Lag] | None = None
    live: Workers | None = None
    others: list[Registered] | None = None
    archived: dict[tuple[int, int], Archived] = {}
    known: Roster | None = None
    worse: list[Regression] = []
    findings: list[Finding] = []
    unread: list[ShardpulseError] = []
    events: list[RecentEvent] = []
    try:
        layout = read_layout(cluster)
        found = books.read(cluster, layout, down_after, wall)
        known = roster.read(cluster, layout, wall())
        lags = read_lags(cluster, layout, found.cursors)
        live = read_workers(cluster, layout)
        others = registered.read(cluster, layout, unread)
        archived = registered.read_archived(cluster, layout, unread)
        events = recent_events.read(cluster, layout, before, unread)
        worse = regressions.fresh(_last_states(cluster, layout.tags, unread).values(), before)
    except (ShardError, TemporaryError) as error:
        findings.append(Finding(DOWN, "books", f"cannot be read: {error}"))
    errors = live.errors if live is not None else ()
    refusals = _refusals([*unread, *errors, *(row.error for row in lags or ())])
    _check_one_answers(rows, [*refusals, *(found.refusals if found is not None else ())])
    accounts = found.accounts if found is not None else []
    now = wall()
    findings += of_books(found, set_names) if found is not None else []
    findings += of_shards(rows) + of_refusals(refusals, rows) + of_risks(rows) + of_seeds(nobodies)
    findings += of_clocks(rows, accounts, before, after)
    findings += of_filter(lags, live) if lags is not None and live is not None else []
    findings += of_readers(others or ())
    findings += of_archived(archived.values(), accounts, set_names)
    findings += of_roster(known, blindness(known, accounts)) if found is not None else []
    reports = found.statuses if found is not None else {}
    findings += of_hosts(accounts, reports, now, down_after) + of_events(events, accounts)
    findings += of_probes(reports.values()) + of_sources(reports.values()) + of_regressions(worse)
    ages = _freshness(accounts, now)
    sums = books.totals(accounts) if found is not None else None
    return Health(now, rows, lags, live, found, sums, ages, findings, others, archived, known)


def _last_states(cluster: Cluster, tags: Sequence[str], unread: list[ShardpulseError]) -> dict[str, dict[str, str]]:
    """Last reports of services and archivers, by partition; unreadable partitions go into ``unread``."""
    try:
        return happenings.read_told(cluster, tags)
    except ShardpulseError as error:
        unread.append(error)
        return {}


def blindness(known: Roster | None, accounts: Iterable[Account]) -> str:
    """Why there is no host; "" if there is one beside the expired ones, or nothing is ``known``."""
    gone = {one.host: one.last for one in known.gone} if known is not None else {}
    if known is None or any(row.host not in gone or row.wall > gone[row.host] + 1.0 for row in accounts):
        return ""
    return roster.blindness(known)


def _refusals(errors: Iterable[ShardpulseError | None]) -> list[str]:
    """Refusals of shards to let this user read, without repetitions."""
    return list(dict.fromkeys(str(error) for error in errors if isinstance(error, PermissionRefused)))


def _check_one_answers(rows: Iterable[ShardStatus], refusals: Iterable[str]) -> None:
    """Raise PermissionRefused for what all masters refuse this user: the user lacks the right, not one shard's list."""
    owners = {f"shard {row.address}" for row in rows if row.there and row.slots}
    refusing: dict[str, set[str]] = {}
    for text in refusals:
        shard, _, reason = text.partition(": ")
        refusing.setdefault(reason, set()).add(shard)
        if owners <= refusing[reason]:
            raise PermissionRefused(text)


def by_set(accounts: Sequence[Account]) -> dict[int, Totals]:
    """Totals of each resource set."""
    numbers = sorted({account.resource_set for account in accounts})
    return {number: books.totals(row for row in accounts if row.resource_set == number) for number in numbers}


def without_value(reports: Iterable[Status], resource_set: str = "") -> dict[str, int] | None:
    """Samples without a value (acquisition.model.codes.WITHOUT_VALUE) by code, of one resource set or all, as counted
    by probes since they started; None if none reports it."""
    found: Counter[str] = Counter()
    for report in reports:
        modules = report.rest.get("modules")
        for name, module in modules.items() if isinstance(modules, dict) else ():
            counts = module.get("without_value") if isinstance(module, dict) else None
            if isinstance(counts, dict) and resource_set in ("", name):
                found.update({code: counts[code] for code in _WITHOUT_VALUE if type(counts.get(code)) is int})
    return dict(found) or None


def lost_by_reason(totals: Totals) -> dict[str, int]:
    """Samples given up, by the probes' own counts since their start; ``earlier`` is the rest."""
    shed = min(totals.shed, totals.lost)
    dropped = min(totals.dropped, totals.lost - shed)
    return {"shed": shed, "ring_or_unreadable": dropped, "earlier": totals.lost - shed - dropped}


def _freshness(accounts: Sequence[Account], now: float) -> Freshness | None:
    ages = sorted(
        max(0.0, now - row.wall)
        for row in accounts
        if row.wall and row.report != ENDED and math.isfinite(now - row.wall)
    )
    if not ages:
        return None
    return Freshness(ages[(len(ages) - 1) // 2], ages[math.ceil(0.99 * (len(ages) - 1))], ages[-1])
