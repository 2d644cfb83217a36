"""What the books and the probes' own accounts say of hosts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from acquisition import compiled
from acquisition.snapshot.balance import ABSENT, DAMAGED, ENDED, RENUMBERED, SILENT
from acquisition.snapshot.books import Account, Books
from acquisition.status.finding import DOWN, NOTE, STALE, UNBALANCED, Finding
from acquisition.wire.rejected import SIGNATURE
from acquisition.wire.status import Status

_SLOW_PROBES = (
    "read /proc with Python, which takes more CPU than the native step: what they said at their start tells why, and "
    "what to install"
)
_UNREADABLE = (
    "run without CAP_SYS_PTRACE or CAP_DAC_READ_SEARCH and may not read /proc/PID/io of other users' processes: "
    "disk_read_bytes_per_second, disk_write_bytes_per_second and disk_write_cancelled_bytes_per_second of these are "
    "MISSING, and count as invalid; give them these capabilities if these figures are wanted"
)
_CONTESTED = (
    "a second sender uses this name: no figure of it is VALID, and what the younger one sends is not taken; give each "
    "machine a name of its own ([host] name)"
)

_REFUSED = (
    "refused: signature: the filter puts its frames aside, which are not signed with this host's key; its probe keeps "
    "them meanwhile"
)


def of_books(found: Books, set_names: Mapping[int, str]) -> list[Finding]:
    """What does not balance, and what the books do not hold; ``set_names`` are resource sets by number."""
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
    SILENT: "its probe has said nothing for {age:.0f} s: what it made since is unknown",
    ABSENT: "its probe's own account is not here: what is pending is unknown",
    DAMAGED: "its probe's own account cannot be read: what is pending is unknown",
    RENUMBERED: "its probe has begun to number anew: what is pending is unknown for a moment",
}


def of_hosts(
    accounts: Sequence[Account], reports: Mapping[int, Status], now: float, down_after: float
) -> list[Finding]:
    """What the accounts of hosts say; ``reports`` are the probes' own by host, ``now`` seconds since 1970."""
    hosts: dict[int, list[Account]] = {}
    for account in accounts:
        hosts.setdefault(account.host, []).append(account)
    found = [finding for rows in hosts.values() for finding in _of_host(rows, now, down_after)]
    found += [_contest(rows[0], reports.get(host)) for host, rows in hosts.items() if _is_contested(rows)]
    refused = [report for report in reports.values() if report.rest.get("refused") == SIGNATURE]
    return found + [Finding(STALE, f"host {report.host_name}", _REFUSED) for report in refused]


def _is_contested(rows: Sequence[Account]) -> bool:
    return any(row.contested for row in rows)


def _contest(row: Account, report: Status | None) -> Finding:
    """Two machines of one name, and which of them has written the newest account."""
    machine = None if report is None else _said(report, "machine")
    return Finding(STALE, _host(row), _CONTESTED + (f"; one of them: {machine}" if machine else ""))


def of_probes(reports: Collection[Status]) -> list[Finding]:
    """How many probes read /proc the slow way, and how many may not read all of it, in one line each for all."""
    slow = sum(_said(report, "step") == compiled.PYTHON for report in reports)
    unable = sum(_said(report, "reads_others") is False for report in reports)
    found = [(slow, "probes", _SLOW_PROBES), (unable, "rights of probes", _UNREADABLE)]
    return [Finding(NOTE, about, f"{count} of {len(reports)} {text}") for count, about, text in found if count]


def _said(report: Status, name: str) -> object:
    """What a probe says of itself, such as its ``step``, ``native`` or ``python``; None when it does not say."""
    said = report.rest.get("probe")
    return said.get(name) if isinstance(said, dict) else None


def _of_host(rows: Sequence[Account], now: float, down_after: float) -> list[Finding]:
    """One line per kind of trouble, not one per resource set."""
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
        found.append(Finding(NOTE, about, f"{lost} samples are lost, and counted"))
    if gaps := max(row.gaps for row in rows):
        found.append(Finding(NOTE, about, f"{gaps} gaps of unknown size: its ring was lost (a power cut?)"))
    if any(row.sheds for row in rows):
        found.append(Finding(NOTE, about, "sheds frames: more is made than the pipeline takes"))
    return found


def _host(row: Account) -> str:
    return f"host {row.host_name or format(row.host, '016x')}"


def _is_old(row: Account, age: float, down_after: float) -> bool:
    return bool(row.wall) and age > max(down_after, 3 * row.interval)
