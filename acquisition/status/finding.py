"""What people should know of the pipeline: one finding for each thing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from acquisition import compiled
from acquisition.errors import FrameError
from acquisition.link.happenings import CONFLICT, VM_TWICE
from acquisition.link.resp import Address
from acquisition.model.identity import is_own_name
from acquisition.shards.servers import resilience
from acquisition.shards.servers.status import REPLICA, ShardStatus
from acquisition.snapshot.reconcile.balance import ABSENT, DAMAGED, ENDED, RENUMBERED, SILENT
from acquisition.snapshot.reconcile.books import Account, Books
from acquisition.snapshot.reconcile.registered import Registered
from acquisition.snapshot.visibility import clocks, lag, roster
from acquisition.snapshot.visibility.lag import Lag
from acquisition.snapshot.visibility.roster import Roster
from acquisition.snapshot.visibility.workers import Worker, Workers
from acquisition.status.lately import Told
from acquisition.wire.archived import Archived
from acquisition.wire.keys import SLOTS
from acquisition.wire.rejected import LIMIT, SIGNATURE
from acquisition.wire.status import Status

UNBALANCED = "unbalanced"  #: counts that must agree do not
DOWN = "down"  #: a part does not answer, or is not there
STALE = "stale"  #: a part answers and is behind, or has not said anything for long
NOTE = "note"  #: worth knowing, nothing is wrong now


class Finding(NamedTuple):
    """One thing that people should know: UNBALANCED, DOWN, STALE or NOTE, about what, and what it is."""

    kind: str
    about: str
    text: str


# -- What the books and the probes' own accounts say of hosts.

_SLOW_PROBES = (
    "read /proc with Python, which takes more CPU than the native step: their messages at the start say why, and "
    "what to install"
)
_UNREADABLE = (
    "run without CAP_SYS_PTRACE or CAP_DAC_READ_SEARCH and may not read /proc/PID/io of other users' processes: "
    "disk_read_bytes_per_second, disk_write_bytes_per_second and disk_write_cancelled_bytes_per_second of these have "
    "no value (MISSING), which is not invalid; give them these capabilities if these figures are wanted"
)
_CONTESTED = (
    "a second sender uses this name: no figure of it is VALID, and what the younger one sends is not taken; give each "
    "machine a name of its own ([host] name)"
)

_MISNAMED = (
    "calls itself {said}, by the name of another host: it is listed by its id, and nothing that is said of that name "
    "is booked on it; find out who sends it"
)
_LONGEST_NAME = 100
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
    RENUMBERED: "its probe has restarted its numbering: what is pending is unknown for a moment",
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
    found += [
        Finding(STALE, _host(rows[0]), _MISNAMED.format(said=said))
        for host, rows in hosts.items()
        if (said := _other_name(host, rows, reports.get(host)))
    ]
    refused = [host for host, report in reports.items() if report.rest.get("refused") == SIGNATURE]
    names = {host: _host(rows[0]) for host, rows in hosts.items()}
    return found + [Finding(STALE, names.get(host, f"host {host:016x}"), _REFUSED) for host in refused]


def _other_name(host: int, rows: Sequence[Account], report: Status | None) -> str:
    """The name of another host that it gives itself, in words; "" if absent. Its tables may, and its probe's
    own account not, of which the books know the name."""
    if report is not None and rows[0].host_name != report.host_name:
        return repr(report.host_name[:_LONGEST_NAME])
    tables = any(row.misnamed for row in rows) and (report is None or is_own_name(report.host_name, host))
    return "otherwise in its tables" if tables else ""


def of_roster(known: Roster | None, blind: str) -> list[Finding]:
    """Why no host at all is seen, or which ones have expired beside those that are."""
    if blind:
        return [Finding(STALE, "hosts", blind)]
    return [Finding(NOTE, "hosts", roster.missed(known.gone))] if known is not None and known.gone else []


def _is_contested(rows: Sequence[Account]) -> bool:
    return any(row.contested for row in rows)


def _contest(row: Account, report: Status | None) -> Finding:
    """Two machines of one name, and which of them has written the newest account."""
    machine = None if report is None else _said(report, "machine")
    return Finding(STALE, _host(row), _CONTESTED + (f"; one of them: {machine}" if machine else ""))


_LATELY: Mapping[str, str] = {
    LIMIT: "some of its frames are rejected: {reason}",
    CONFLICT: "{reason}: nothing is decided by it; see what runs there (`shardpulse query --set vms --host {name}`)",
}


def of_lately(told: Iterable[Told], accounts: Sequence[Account]) -> list[Finding]:
    """What filters and services have lately reported of hosts and VMs."""
    names = {row.host: row.host_name for row in accounts}
    found = []
    for host, kind, vm, reason in told:
        name = names.get(host) or f"{host:016x}"
        if vm:
            found.append(Finding(DOWN if kind == VM_TWICE else NOTE, f"VM {vm}", reason))
        else:
            found.append(Finding(STALE, f"host {name}", _LATELY[kind].format(reason=reason, name=name)))
    return found


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


# -- What one look at shards, clocks, filter workers, readers of the raw streams and the archive's books finds.

#: What an entry may wait for a filter before that is called behind; another worker takes over within 3 s.
BEHIND_SECONDS = 5.0
#: The same of a reader that registers itself, as the archive does: it says every five seconds how far it has come.
READER_BEHIND_SECONDS = 30.0
_FULL = 0.9
_OTHER_FIGURES = (
    "workers are configured differently ([filter] kernels, tau_seconds, tau or inputs): what averages mean depends on "
    "who holds a partition"
)
_REFUSING = (
    "is full ({share:.0f}% of its maxmemory): it refuses what probes send and filters write, probes keep their frames; "
    "it needs more memory, or shards beside it (`shardpulse shards add`)"
)
_UNTOLD = "refuses this user an answer, which is missing here: {error}"
_NO_MEMBER = (
    "is named in [shards] addresses, is a member of nothing and does not answer ({reason}), while others serve "
    "everything: take it out there"
)
_SLOW_STEP = (
    "computes with numpy, which takes more CPU than the native step: its message at the start says why, and what to "
    "install"
)


def of_shards(rows: Sequence[ShardStatus]) -> list[Finding]:
    """What is to be said of shards: of those that do not answer, that are full, and of slots without an owner."""
    found = []
    for row in rows:
        about = f"shard {row.address}"
        if row.refuses:
            found.append(Finding(STALE, about, _UNTOLD.format(error=row.problem)))
        elif not row.answering:
            found.append(Finding(DOWN, about, row.problem))
        elif row.role == REPLICA and not row.in_sync:
            found.append(Finding(STALE, about, f"has no link to its master {row.replica_of}: it could not take over"))
        if row.pinned is False:
            found.append(Finding(NOTE, about, f"is bound to no single core: it may run on {row.cores}"))
        if row.memory_limit_bytes and row.memory_bytes > _FULL * row.memory_limit_bytes:
            share = 100 * row.memory_bytes / row.memory_limit_bytes
            found.append(
                Finding(STALE, about, _REFUSING.format(share=share))
                if row.memory_bytes > row.memory_limit_bytes
                else Finding(NOTE, about, f"is {share:.0f}% full: it refuses frames at 100%, probes keep them then")
            )
        if row.slots_moving:
            found.append(Finding(NOTE, about, f"{row.slots_moving} of its slots are on the move"))
    unserved = SLOTS - sum(row.slots for row in rows if row.there)
    if unserved > 0:
        found.append(Finding(DOWN, "slots", f"{unserved} of {SLOTS} are served by no shard that answers"))
        found += _of_majority(rows)
    return found


def of_risks(rows: Sequence[ShardStatus]) -> list[Finding]:
    """What the death of one shard or machine would cost, though nothing is away now."""
    return [
        Finding(STALE if risk.grave else NOTE, risk.about, risk.text)
        for risk in resilience.risks([
            row._replace(answering=row.there, in_sync=row.in_sync or row.refuses) for row in rows
        ])  # of a replica that does not tell nothing is known
    ]  # fmt: skip


def of_refusals(refusals: Iterable[str], rows: Sequence[ShardStatus]) -> list[Finding]:
    """What shards do not let this user read, in their words, but for what ``rows`` say already."""
    said = {f"shard {row.address}: {row.problem}" for row in rows if row.refuses}
    parted = [text.partition(": ") for text in refusals if text not in said]
    return [Finding(STALE, shard, _UNTOLD.format(error=reason)) for shard, _, reason in parted]


def of_seeds(strangers: Mapping[Address, str]) -> list[Finding]:
    """What is to be said of addresses that are asked for shards, and are none."""
    return [
        Finding(NOTE, f"shard {address}", _NO_MEMBER.format(reason=reason)) for address, reason in strangers.items()
    ]


def of_clocks(rows: Sequence[ShardStatus], accounts: Sequence[Account], before: float, after: float) -> list[Finding]:
    """Shards whose clocks differ by more than half the shortest interval of ``accounts`` from this machine's, which
    showed ``before`` and ``after`` when they were asked."""
    ahead = {row.address: clocks.ahead_of(row.clock, before, after) for row in rows if row.clock}
    limit = clocks.limit_of(account.interval for account in accounts)
    age = before - max((account.wall for account in accounts if isfinite(account.wall)), default=0.0)
    off = {address: by for address, by in ahead.items() if abs(by) > limit}
    why = clocks.WHY[clocks.suspect(ahead, age, limit)] if off else ""
    return [
        Finding(STALE, f"shard {address}", f"the clock of this machine is {clocks.by_how_much(by)} it: {why}")
        for address, by in off.items()
    ]


def _of_majority(rows: Sequence[ShardStatus]) -> list[Finding]:
    """Masters that see no majority of themselves refuse every command a few seconds later."""
    serving = sum(row.there and row.slots > 0 for row in rows)
    gone = sum(not row.there and row.role != REPLICA for row in rows)
    if not serving or serving > gone:
        return []
    told = f"{serving} of {serving + gone} masters answer, which is no majority: within seconds they refuse everything"
    return [Finding(DOWN, "majority", f"{told}, until more than half answer (two shards have none without each other)")]


def of_filter(lags: Sequence[Lag], live: Workers) -> list[Finding]:
    """What is to be said of the workers."""
    known = [row for row in lags if row.seconds is not None]
    found = [Finding(UNBALANCED, "record", str(error)) for error in live.errors if isinstance(error, FrameError)]
    free = len(live.unowned)
    if free and not live.workers:
        found.append(Finding(DOWN, "filter", "no worker is there: start `shardpulse filter`"))
    elif free:
        found.append(Finding(STALE, "filter", f"{free} partitions are held by no worker"))
    found += [
        Finding(NOTE, f"worker {worker.name}", _SLOW_STEP) for worker in live.workers if worker.step == compiled.NUMPY
    ]
    if len({worker.figures for worker in live.workers if worker.figures}) > 1:
        found.append(Finding(NOTE, "filter", _OTHER_FIGURES))
    for worker in live.workers:
        worst = lag.worst_of(worker, known) or 0.0
        if worst > BEHIND_SECONDS:
            found.append(Finding(STALE, f"worker {worker.name}", f"is {worst:.0f} s behind"))
    waited = lag.worst_of(Worker("", "", 0.0, 0.0, live.unowned), known) or 0.0
    if waited > BEHIND_SECONDS:
        found.append(Finding(STALE, "filter", f"entries have waited for {waited:.0f} s where no worker is"))
    return found


def of_readers(rows: Sequence[Registered]) -> list[Finding]:
    """What is to be said of the registered readers of the raw streams."""
    found = []
    for row in rows:
        if row.expired:
            text = f"has not reported for long: nothing waits for it any more in {row.expired} partitions"
            found.append(Finding(STALE, row.name, text))
        elif row.behind_seconds > READER_BEHIND_SECONDS:
            why = row.trouble or "it, or its database, is away"
            found.append(Finding(STALE, row.name, f"is {row.behind_seconds:.0f} s behind: {why}"))
        elif row.trouble:
            found.append(Finding(NOTE, row.name, f"waits: {row.trouble}"))
        if row.gap:
            found.append(
                Finding(NOTE, row.name, f"{row.gap} samples will never be in it; its events say which and why")
            )
    return found


def of_archived(rows: Iterable[Archived], accounts: Sequence[Account], set_names: Mapping[int, str]) -> list[Finding]:
    """What the archive's own counts contradict."""
    names = {row.host: row.host_name for row in accounts}
    found = []
    for row in rows:
        if row.difference:
            known = set_names.get(row.resource_set, f"{row.resource_set:08x}")
            about = f"archive, host {names.get(row.host) or format(row.host, '016x')} set {known}"
            kept = f"{row.archived} are archived, {row.gap} never will be, {row.pending} are pending"
            told = f"of {row.made} samples {kept}: {row.difference} are not accounted for"
            found.append(Finding(UNBALANCED, about, told))
    return found
