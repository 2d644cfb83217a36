"""Findings about hosts and their figures."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from acquisition import compiled
from acquisition.link.happenings import CONFLICT, VM_TWICE
from acquisition.model.identity import is_own_name
from acquisition.snapshot.reconcile.balance import ABSENT, DAMAGED, ENDED, RENUMBERED, SILENT
from acquisition.snapshot.reconcile.books import Account, Books
from acquisition.snapshot.visibility import roster
from acquisition.snapshot.visibility.roster import Roster
from acquisition.wire.regressions import Regression
from acquisition.wire.rejected import LIMIT, SIGNATURE
from acquisition.wire.status import Status

UNBALANCED = "unbalanced"  #: counts that must agree do not
DOWN = "down"  #: a part does not answer, or is missing
STALE = "stale"  #: a part answers but is behind, or has not reported for long
NOTE = "note"  #: worth knowing, nothing is wrong now


class Finding(NamedTuple):
    """A finding for users: UNBALANCED, DOWN, STALE or NOTE, its subject, and its text."""

    kind: str
    about: str
    text: str


class RecentEvent(NamedTuple):
    """An event of a host, or of a VM (its id) without a particular host, and its reason as text."""

    host: int
    kind: str
    vm: str
    reason: str


_SLOW_PROBES = (
    "read /proc in Python, which takes more CPU than the native step; their startup messages give the reason "
    "and the remedy"
)
_UNREADABLE = (
    "run without CAP_SYS_PTRACE or CAP_DAC_READ_SEARCH and cannot read /proc/PID/io of other users' "
    "processes: their disk_read_bytes_per_second, disk_write_bytes_per_second and "
    "disk_write_cancelled_bytes_per_second have no value (MISSING, not invalid); grant the capabilities to get "
    "these figures"
)
_CONTESTED = (
    "two senders use this name: none of its figures is VALID, and frames of the younger sender are refused; "
    "give each machine its own name ([host] name)"
)

_MISNAMED = (
    "claims {said} of another host: it is listed by its id, and that name's events are not "
    "attributed to it; find out who sends it"
)
_LONGEST_NAME = 100
_REFUSED = (
    "signature refused: the filter rejects its frames, which are not signed with this host's key; its probe keeps them"
)


def of_books(found: Books, set_names: Mapping[int, str]) -> list[Finding]:
    """Findings on accounts that do not balance, and on gaps in the books; ``set_names`` are resource sets by number."""
    rows = [
        Finding(UNBALANCED, f"{_host(row)} set {set_names.get(row.resource_set, f'{row.resource_set:08x}')}", fault)
        for row in found.accounts
        for fault in row.faults
    ]
    rows += [Finding(UNBALANCED, "record", problem) for problem in found.problems]
    reasons: dict[str, list[str]] = {}
    for tag, reason in found.unreadable.items():
        reasons.setdefault(reason, []).append(tag)
    for reason, tags in reasons.items():
        kind = STALE if reason in found.refusals else DOWN
        rows.append(Finding(kind, f"{len(tags)} partitions", f"not in these books: {reason}"))
    return rows


_REPORTS: Mapping[str, str] = {
    SILENT: "its probe has been silent for {age:.0f} s: samples made since are unknown",
    ABSENT: "its probe's status is missing: pending samples are unknown",
    DAMAGED: "its probe's status is unreadable: pending samples are unknown",
    RENUMBERED: "its probe has restarted its numbering: pending samples are unknown for a moment",
}


def of_hosts(
    accounts: Sequence[Account], reports: Mapping[int, Status], now: float, down_after: float
) -> list[Finding]:
    """Findings on the accounts of hosts; ``reports`` are the probes' own by host, ``now`` seconds since 1970."""
    hosts: dict[int, list[Account]] = {}
    for account in accounts:
        hosts.setdefault(account.host, []).append(account)
    found = [finding for rows in hosts.values() for finding in _of_host(rows, now, down_after)]
    found += [_contest(rows[0], reports.get(host)) for host, rows in hosts.items() if _is_contested(rows)]
    found += [
        Finding(STALE, _host(rows[0]), _MISNAMED.format(said=said))
        for host, rows in hosts.items()
        if (said := _other_name(host, rows, reports.get(host)))
    ]
    refused = [host for host, report in reports.items() if report.rest.get("refused") == SIGNATURE]
    names = {host: _host(rows[0]) for host, rows in hosts.items()}
    return found + [Finding(STALE, names.get(host, f"host {host:016x}"), _REFUSED) for host in refused]


def _other_name(host: int, rows: Sequence[Account], report: Status | None) -> str:
    """Text about another host's name that it gives itself; "" if absent. Its tables may, but not its probe's
    own account, the source of the name in the books."""
    if report is not None and rows[0].host_name != report.host_name:
        return f"the name {report.host_name[:_LONGEST_NAME]!r}"
    tables = any(row.misnamed for row in rows) and (report is None or is_own_name(report.host_name, host))
    return "in its tables the name" if tables else ""


def of_roster(known: Roster | None, blind: str) -> list[Finding]:
    """Why no host at all is seen, or which ones have expired beside the present ones."""
    if blind:
        return [Finding(STALE, "hosts", blind)]
    return [Finding(NOTE, "hosts", roster.missed(known.gone))] if known is not None and known.gone else []


def _is_contested(rows: Sequence[Account]) -> bool:
    return any(row.contested for row in rows)


def _contest(row: Account, report: Status | None) -> Finding:
    """Two machines with one name, and the one that has written the newest account."""
    machine = None if report is None else _said(report, "machine")
    return Finding(STALE, _host(row), _CONTESTED + (f"; one of them: {machine}" if machine else ""))


_EVENTS: Mapping[str, str] = {
    LIMIT: "some of its frames are rejected: {reason}",
    CONFLICT: "{reason}: it is excluded from decisions; check what runs there (`shardpulse query --set vms "
    "--host {name}`)",
}


def of_events(events: Iterable[RecentEvent], accounts: Sequence[Account]) -> list[Finding]:
    """Findings on recent events of hosts and VMs, reported by filters and services."""
    names = {row.host: row.host_name for row in accounts}
    found = []
    for host, kind, vm, reason in events:
        name = names.get(host) or f"{host:016x}"
        if vm:
            found.append(Finding(DOWN if kind == VM_TWICE else NOTE, f"VM {vm}", reason))
        else:
            found.append(Finding(STALE, f"host {name}", _EVENTS[kind].format(reason=reason, name=name)))
    return found


def of_probes(reports: Collection[Status]) -> list[Finding]:
    """Number of probes that read /proc the slow way, and of those that may not read all of it, in one line each."""
    slow = sum(_said(report, "step") == compiled.PYTHON for report in reports)
    unable = sum(_said(report, "reads_others") is False for report in reports)
    found = [(slow, "probes", _SLOW_PROBES), (unable, "rights of probes", _UNREADABLE)]
    return [Finding(NOTE, about, f"{count} of {len(reports)} {text}") for count, about, text in found if count]


def _said(report: Status, name: str) -> object:
    """Field of a probe's report, such as its ``step``, ``native`` or ``python``; None if absent."""
    said = report.rest.get("probe")
    return said.get(name) if isinstance(said, dict) else None


def _of_host(rows: Sequence[Account], now: float, down_after: float) -> list[Finding]:
    """One line per kind of problem, not one per resource set."""
    about = _host(rows[0])
    found = []
    for report in dict.fromkeys(row.report for row in rows if row.report in _REPORTS):
        age = max(row.report_age or 0.0 for row in rows)
        found.append(Finding(STALE, about, _REPORTS[report].format(age=age)))
    old = [row for row in rows if row.known and row.report != ENDED and _is_old(row, now - row.wall, down_after)]
    if old:
        age, pending = now - min(row.wall for row in old), sum(row.pending for row in old)
        found.append(Finding(STALE, about, f"its newest samples are {age:.0f} s old, {pending} are pending"))
    if lost := sum(row.lost for row in rows):
        found.append(Finding(NOTE, about, f"{lost} samples lost"))
    if gaps := max(row.gaps for row in rows):
        found.append(Finding(NOTE, about, f"{gaps} gaps of unknown size: its ring was lost (power failure?)"))
    if any(row.sheds for row in rows):
        found.append(Finding(NOTE, about, "drops frames: the pipeline is overloaded"))
    return found


def _host(row: Account) -> str:
    return f"host {row.host_name or format(row.host, '016x')}"


def _is_old(row: Account, age: float, down_after: float) -> bool:
    return bool(row.wall) and age > max(down_after, 3 * row.interval)


_NO_VALUES = "{count} of {all} probes read no values of it, for example host {host}: {problem}"


def of_sources(reports: Collection[Status]) -> list[Finding]:
    """Resource sets with a source that yields nothing, in one line each for all probes, with one reason."""
    seen: dict[str, int] = {}
    failing: dict[str, list[tuple[str, str]]] = {}
    for report in reports:
        modules = report.rest.get("modules")
        for name, module in modules.items() if isinstance(modules, dict) else ():
            problem = module.get("problem") if isinstance(module, dict) else None
            seen[name] = seen.get(name, 0) + 1
            if problem and isinstance(problem, str):
                failing.setdefault(name, []).append((report.host_name, problem))
    return [
        Finding(STALE, f"set {name}", _NO_VALUES.format(count=len(rows), all=seen[name], host=host, problem=problem))
        for name, rows in failing.items()
        for host, problem in rows[:1]
    ]


_WORSE = "{metric} of {entity} has been {change} than usual since {since} UTC; odds by chance 1 in {odds:,.0f}{rest}"
_LEAST_CHANCE = 1e-12  #: smallest probability worth mentioning


def of_regressions(rows: Sequence[Regression]) -> list[Finding]:
    """Figures that got worse, the largest change first: one line for each host and metric, with its largest change."""
    groups: dict[tuple[str, str], list[Regression]] = {}
    for row in rows:
        groups.setdefault((row.host, row.metric), []).append(row)
    return [Finding(NOTE, f"host {host}", _of_worse(*found)) for (host, _), found in groups.items()]


def _of_worse(first: Regression, *others: Regression) -> str:
    names = ", ".join(other.entity for other in others)
    return _WORSE.format(
        metric=first.metric, entity=first.entity,
        change=f"{abs(first.change):.1%} {'more' if first.change > 0 else 'less'}",
        since=time.strftime("%Y-%m-%d %H:%M", time.gmtime(first.since)), odds=1 / max(first.chance, _LEAST_CHANCE),
        rest=f"; so are {names}" if names else "",
    )  # fmt: skip
