"""Status as plain text of at most 80 columns, coloured on capable consoles."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from acquisition.shards.servers.status import REPLICA, ShardStatus
from acquisition.snapshot.reconcile import books
from acquisition.snapshot.reconcile.books import Account, Totals
from acquisition.snapshot.reconcile.registered import Registered
from acquisition.snapshot.visibility.workers import Lag, Worker, lag_of, worst_lag
from acquisition.status.document import Verdict, condition_of
from acquisition.status.finding import DOWN, NOTE, STALE, UNBALANCED, Finding
from acquisition.status.health import Health, by_set, lost_by_reason, without_value
from acquisition.terminal import printable
from acquisition.wire import archived
from acquisition.wire.archived import Archived

WIDTH = 80
UNKNOWN = "unknown"  #: in place of a figure that could not be read
_CONDITIONS = {
    Verdict.DOWN: "DOWN", Verdict.BLIND: "BLIND", Verdict.STALE: "stale", Verdict.OK: "all parts work",
}  # fmt: skip
_STYLES = {UNBALANCED: "bold red", DOWN: "bold red", STALE: "yellow", NOTE: "dim"}
_MARGIN = 10


def lines(health: Health, set_names: Mapping[int, str], most: int, host: str | None = None) -> Iterator[Text]:
    """The whole status, or the accounts of one host alone; ``most`` limits the findings and workers shown."""
    yield _verdict(health)
    yield Text()
    if host is not None:
        yield from _host(health, set_names, host)
        return
    yield from _summary(health)
    yield Text()
    yield from _shards(health.shards)
    if health.workers is not None and health.workers.workers:
        yield Text()
        yield from _workers(health.workers.workers, health.lags or (), most)
    if health.accounts:
        yield Text()
        yield from _sets(health.accounts, set_names)
    if health.findings:
        yield Text()
        yield from _findings(health.findings, most)


def _verdict(health: Health) -> Text:
    verdict = _books_verdict(health)
    state = _CONDITIONS[condition_of(health)]
    return Text.assemble(
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(health.wall)),
        "   books ",
        (verdict, "bold green" if verdict == "balanced" else "bold red"),
        "   pipeline ",
        (state, "bold green" if state == "all parts work" else _STYLES[DOWN if state.isupper() else STALE]),
    )


def _books_verdict(health: Health) -> str:
    if any(finding.kind == UNBALANCED for finding in health.findings):
        return "NOT BALANCED"
    if health.books is None:
        return "NOT READ"
    return "INCOMPLETE" if health.unread else "balanced"


def _summary(health: Health) -> Iterator[Text]:
    """Books, hosts, shards, filter and further readers; unreadable parts are shown as unknown."""
    if health.unread:
        unread = f"{health.unread} of {len(health.lags or ())} partitions could not be read"
        yield Text(f"Unknown: {unread}; figures exclude them.", "bold red")
    if health.totals is None:
        yield from [_row(title, UNKNOWN, "bold red") for title in ("samples", "frames", "hosts", "age")]
    else:
        yield from _books(health.totals)
        yield from _without_value(without_value(health.reports.values()))
        yield _row("hosts", _hosts(health, health.totals))
        yield _row("age", _freshness(health))
    yield _row("shards", _cluster(health.shards))
    if health.workers is None or health.lags is None or health.books is None:
        yield _row("filter", UNKNOWN, "bold red")
    else:
        yield from _filter(health.workers.workers, health.lags, health.books.rejected)
    yield from _readers(health.readers)


def _hosts(health: Health, totals: Totals) -> str:
    hosts = {row.host for row in health.accounts}
    if not hosts:
        return UNKNOWN if health.unread else "none"
    unknown = totals.silent + totals.unreported
    words = f"pending samples unknown for {unknown:,} resource sets" if unknown else "all probes report"
    return f"{'at least ' * bool(health.unread)}{len(hosts):,}; {words}"


def _filter(workers: Sequence[Worker], lags: Sequence[Lag], rejected: int) -> Iterator[Text]:
    held = sum(len(worker.partitions) for worker in workers)
    known = [row for row in lags if row.seconds is not None]
    where = f" in {len(known)} of these" if len(known) < len(lags) else ""
    words = f"at most {worst_lag(known):.2f} s behind{where}" if known else f"backlog {UNKNOWN}"
    who = f"{_plural(len(workers), 'worker')} for {held} of {len(lags)} partitions"
    yield from _wrapped("filter", f"{who}, {words}, {rejected:,} rejected", "", _MARGIN)


def _readers(readers: Sequence[Registered] | None) -> Iterator[Text]:
    if readers is None:
        yield _row("readers", UNKNOWN, "bold red")
    for reader in readers or ():
        words = (
            f"{reader.behind_seconds:.0f} s behind; of {reader.made:,} samples since its start "
            f"{reader.archived:,} archived, {reader.open:,} in open minutes, {reader.gap:,} "
            f"lost{_processes(reader.processes)}"
        )
        yield from _wrapped(_cut(reader.name, _MARGIN - 1), words, "", _MARGIN)


def _processes(partitions: Mapping[str, int]) -> str:
    return f"; {', '.join(f'{name} follows {count}' for name, count in partitions.items())}" if partitions else ""


def _cluster(rows: Sequence[ShardStatus]) -> str:
    masters = [row for row in rows if row.role != REPLICA]
    replicas = [row for row in rows if row.role == REPLICA]
    slots = sum(row.slots for row in rows if row.there)
    synchronous = (
        f"{sum(row.in_sync for row in replicas)} of {len(replicas)} replicas in sync" if replicas else "no replicas"
    )
    return (
        f"{sum(row.answering for row in masters)} of {_plural(len(masters), 'master')} with {slots:,} slots;"
        f" {synchronous}"
    )


def _books(totals: Totals) -> Iterator[Text]:
    yield _row("samples", f"{totals.made:>16,} made, of which")
    parts = (
        ("before the books began", totals.before),
        ("applied", totals.applied),
        ("lost", totals.lost),
        ("pending", totals.pending),
    )
    difference = totals.made - sum(count for _, count in parts)
    for name, count in parts:
        yield _row("", f"{count:>16,} {name}{_remark(name, totals)}", "bold red" if name == "lost" and count else "")
    if difference:
        yield _row("", f"{difference:>16,} UNACCOUNTED FOR", "bold red")
    yield _row(
        "frames",
        f"{totals.frames:,} applied, {totals.resent_frames:,} resent, {totals.refused_frames:,} refused, "
        f"{totals.duplicate_frames:,} duplicate",
    )


def _without_value(counts: Mapping[str, int] | None) -> Iterator[Text]:
    if counts is not None:
        reasons = ", ".join(f"{count:,} {code}" for code, count in counts.items())
        words = f"{sum(counts.values()):,} samples since the probes started: {reasons}"
        yield from _wrapped("no value", words, "", _MARGIN)


def _remark(name: str, totals: Totals) -> str:
    if name == "applied" and totals.invalid:
        return f" ({totals.invalid:,} of them invalid: a check failed)"
    if name == "lost" and totals.lost:
        reasons = [f"{count:,} {reason.replace('_', ' ')}" for reason, count in lost_by_reason(totals).items() if count]
        return f" ({', '.join(reasons)})"
    if name == "pending":
        remarks = [f"{totals.missing:,} to be resent"] * bool(totals.missing)
        remarks += ["at least: probes are silent"] * bool(totals.silent + totals.unreported)
        return f" ({', '.join(remarks)})" * bool(remarks)
    return ""


def _freshness(health: Health) -> str:
    ages = health.freshness
    if ages is None:
        return UNKNOWN if health.unread else "no samples yet"
    return f"newest samples p50 {ages.p50:.2f} s, p99 {ages.p99:.2f} s, worst {ages.worst:.2f} s old"


def _shards(rows: Sequence[ShardStatus]) -> Iterator[Text]:
    yield Text(f"{'SHARD':<26}{'ROLE':<9}{'CORE':<9}{'MEMORY':>18}{'SLOTS':>8}{'BEHIND':>10}", "dim")
    for row in rows:
        place = f"{'  ' * (row.role == REPLICA)}{row.address}"
        if not row.answering:
            word, style = ("REFUSES", "yellow") if row.refuses else ("DOWN", "bold red")
            yield Text(_cut(f"{place:<26}{row.role or 'shard':<9}{word}: {row.problem}", WIDTH), style)
            continue
        core = row.cores or "-"
        core += "" if row.pinned is None else " pinned" if row.pinned else " loose"
        full = bool(row.memory_limit_bytes) and row.memory_bytes > 0.9 * row.memory_limit_bytes
        behind = (
            ""
            if row.role != REPLICA
            else f"{row.lag_bytes:,} B"
            if row.in_sync and row.lag_bytes is not None
            else "NO LINK"
        )
        yield Text.assemble(
            f"{_cut(place, 25):<26}{row.role:<9}{_cut(core, 8):<9}",
            (f"{_memory(row):>18}", "yellow" if full else ""),
            f"{row.slots or '':>8}",
            (f"{behind:>10}", "yellow" if behind == "NO LINK" else ""),
        )


def _memory(row: ShardStatus) -> str:
    """In binary units, as everywhere; at most 18 columns."""
    largest = max(row.memory_bytes, row.memory_limit_bytes)
    size, digits, unit = (2**20, 0, "MiB") if largest < 10_000 * 2**20 else (2**30, 1, "GiB")
    limit = f" of {row.memory_limit_bytes / size:,.{digits}f}" if row.memory_limit_bytes else ""
    return f"{row.memory_bytes / size:,.{digits}f}{limit} {unit}"


def _workers(rows: Sequence[Worker], lags: Sequence[Lag], most: int) -> Iterator[Text]:
    yield Text(f"{'FILTER WORKER':<44}{'STEP':<6}{'PARTITIONS':>15}{'BEHIND':>15}", "dim")
    for row in rows[:most]:
        name = f"{_cut(row.name, 43):<44}{row.step or '?':<6}"
        behind = lag_of(row, lags)
        yield Text(f"{name}{len(row.partitions):>15}{UNKNOWN if behind is None else f'{behind:.2f} s':>15}")
    if len(rows) > most:
        yield Text(f"… and {len(rows) - most} more", "dim")


def _sets(accounts: Iterable[Account], names: Mapping[int, str]) -> Iterator[Text]:
    yield Text(f"{'SET':<12}{'HOSTS':>7}{'MADE':>17}{'APPLIED':>17}{'INVALID':>11}{'LOST':>8}{'PENDING':>8}", "dim")
    for number, totals in by_set(list(accounts)).items():
        yield Text.assemble(
            f"{_cut(names.get(number, format(number, '08x')), 11):<12}{totals.accounts:>7,}{totals.made:>17,}"
            f"{totals.applied:>17,}{totals.invalid:>11,}",
            (f"{totals.lost:>8,}", "bold red" if totals.lost else ""),
            f"{totals.pending:>8,}",
        )


def _findings(findings: Sequence[Finding], most: int) -> Iterator[Text]:
    order = (UNBALANCED, DOWN, STALE, NOTE)
    ordered = sorted(findings, key=lambda finding: order.index(finding.kind))
    for finding in ordered[:most]:
        yield from _wrapped(finding.kind, f"{finding.about}: {finding.text}", _STYLES[finding.kind], indent=12)
    if len(ordered) > most:
        yield Text(f"… and {len(ordered) - most} more: --top 0 shows all", "dim")


def _host(health: Health, names: Mapping[int, str], host: str) -> Iterator[Text]:
    """Every count of one host, one resource set after the other."""
    for row in matching(health.accounts, host):
        name = names.get(row.resource_set, format(row.resource_set, "08x"))
        age = "" if row.report_age is None else f", {row.report_age:.1f} s ago"
        verdict = ("balanced", "green") if row.balanced else ("NOT BALANCED", "bold red")
        yield Text.assemble((f"{_cut(row.host_name or '?', 40)} {name}", "bold"), f" ({row.host:016x})  ", verdict)
        yield _row("probe", f"{row.report}{age}; epoch {row.epoch}")
        yield from _books(books.totals([row]))
        yield from _without_value(without_value([health.reports[row.host]] if row.host in health.reports else (), name))
        yield _row("given up", f"{row.dropped:,} dropped, {row.shed:,} shed, {row.go_backs:,} go-backs")
        if found := health.archived.get((row.host, row.resource_set)):
            yield from _archived(found, row)
        if row.gaps:
            yield _row("gaps", f"{row.gaps} of unknown size", "yellow")
        for fault in row.faults:
            yield from _wrapped("fault", fault, "bold red", _MARGIN)
        yield Text()


def _archived(found: Archived, row: Account) -> Iterator[Text]:
    """made = archived + never + pending, of one resource set of a host."""
    unread = archived.unread(found, row.epoch, row.made)
    yield _row("archive", f"{found.made + unread:>16,} made since it has known this set, of which")
    yield _row("", f"{found.archived:>16,} archived")
    yield _row("", f"{found.gap:>16,} lost to it", "bold red" if found.gap else "")
    remark = f" ({unread:,} of them not read yet)" if unread else ""
    yield _row("", f"{found.pending + unread:>16,} pending{remark}")
    if found.difference:
        yield _row("", f"{found.difference:>16,} UNACCOUNTED FOR", "bold red")


def matching(accounts: Iterable[Account], host: str) -> list[Account]:
    """Accounts of a host, by its name or its id in hexadecimal."""
    return [row for row in accounts if host in (row.host_name, format(row.host, "016x"))]


def _wrapped(title: str, text: str, style: str, indent: int) -> Iterator[Text]:
    """Text in lines of at most WIDTH columns; a longer word gets its own line."""
    line = ""
    head = title
    for word in printable(text).split(" "):
        if line and indent + len(line) + 1 + len(word) > WIDTH:
            yield Text(f"{head:<{indent}}{line}", style)
            head, line = "", word
        else:
            line = f"{line} {word}" if line else word
    yield Text(f"{head:<{indent}}{line}", style)


def _row(title: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"{title:<{_MARGIN}}", "dim"), (text, style))


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _cut(text: str, length: int) -> str:
    text = printable(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"
