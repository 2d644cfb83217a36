"""Findings about the parts: shards, clocks, filter workers, readers, the archive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from acquisition import compiled
from acquisition.errors import FrameError
from acquisition.link.resp import Address
from acquisition.shards.servers import resilience
from acquisition.shards.servers.status import REPLICA, ShardStatus
from acquisition.snapshot.reconcile.books import Account
from acquisition.snapshot.reconcile.registered import Registered
from acquisition.snapshot.visibility import clocks
from acquisition.snapshot.visibility.workers import Lag, Worker, Workers, lag_of
from acquisition.status.finding import DOWN, NOTE, STALE, UNBALANCED, Finding
from acquisition.wire.archived import Archived
from acquisition.wire.keys import SLOTS

#: Waiting time of an entry from which a filter counts as behind; another worker takes over within 3 s.
BEHIND_SECONDS = 5.0
#: The same for a registered reader, such as the archive: it reports its progress every five seconds.
READER_BEHIND_SECONDS = 30.0
_FULL = 0.9
_OTHER_FIGURES = (
    "workers have different configurations ([filter] kernels, tau_seconds, tau or inputs): averages depend "
    "on the worker of a partition"
)
_REFUSING = (
    "is out of memory ({share:.0f}% of its maxmemory): it refuses writes, and probes keep their frames; give "
    "it more memory, or add shards (`shardpulse shards add`)"
)
_UNTOLD = "denies this user access to data, which is missing here: {error}"
_NO_MEMBER = (
    "is listed in [shards] addresses, but is not a member and does not answer ({reason}), while the others "
    "serve all slots: remove it from the list"
)
_SLOW_STEP = (
    "computes with numpy, which takes more CPU than the native step; its startup message gives the reason "
    "and the remedy"
)


def of_shards(rows: Sequence[ShardStatus]) -> list[Finding]:
    """Findings on shards: those that do not answer, full ones, and slots without an owner."""
    found = []
    for row in rows:
        about = f"shard {row.address}"
        if row.refuses:
            found.append(Finding(STALE, about, _UNTOLD.format(error=row.problem)))
        elif not row.answering:
            found.append(Finding(DOWN, about, row.problem))
        elif row.role == REPLICA and not row.in_sync:
            found.append(Finding(STALE, about, f"has no link to its master {row.replica_of} and could not take over"))
        if row.pinned is False:
            found.append(Finding(NOTE, about, f"is not pinned to a single core: it may run on {row.cores}"))
        if row.memory_limit_bytes and row.memory_bytes > _FULL * row.memory_limit_bytes:
            share = 100 * row.memory_bytes / row.memory_limit_bytes
            found.append(
                Finding(STALE, about, _REFUSING.format(share=share))
                if row.memory_bytes > row.memory_limit_bytes
                else Finding(NOTE, about, f"is {share:.0f}% full: at 100% it refuses frames, which probes then keep")
            )
        if row.slots_moving:
            found.append(Finding(NOTE, about, f"{row.slots_moving} of its slots are being moved"))
    unserved = SLOTS - sum(row.slots for row in rows if row.there)
    if unserved > 0:
        found.append(Finding(DOWN, "slots", f"{unserved} of {SLOTS} are served by no responding shard"))
        found += _of_majority(rows)
    return found


def of_risks(rows: Sequence[ShardStatus]) -> list[Finding]:
    """Findings on the cost of the death of one shard or machine, although nothing is missing now."""
    return [
        Finding(STALE if risk.grave else NOTE, risk.about, risk.text)
        for risk in resilience.risks([
            row._replace(answering=row.there, in_sync=row.in_sync or row.refuses) for row in rows
        ])  # nothing is known of a replica that does not report
    ]  # fmt: skip


def of_refusals(refusals: Iterable[str], rows: Sequence[ShardStatus]) -> list[Finding]:
    """Findings on shards that refuse this user, in their words, except those already in ``rows``."""
    said = {f"shard {row.address}: {row.problem}" for row in rows if row.refuses}
    parted = [text.partition(": ") for text in refusals if text not in said]
    return [Finding(STALE, shard, _UNTOLD.format(error=reason)) for shard, _, reason in parted]


def of_seeds(strangers: Mapping[Address, str]) -> list[Finding]:
    """Findings on configured addresses that are not shards."""
    return [
        Finding(NOTE, f"shard {address}", _NO_MEMBER.format(reason=reason)) for address, reason in strangers.items()
    ]


def of_clocks(rows: Sequence[ShardStatus], accounts: Sequence[Account], before: float, after: float) -> list[Finding]:
    """Shards whose clocks differ by more than half the shortest interval of ``accounts`` from this machine's, which
    showed ``before`` and ``after`` the request."""
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
    """Masters without contact to a majority of masters refuse every command a few seconds later."""
    serving = sum(row.there and row.slots > 0 for row in rows)
    gone = sum(not row.there and row.role != REPLICA for row in rows)
    if not serving or serving > gone:
        return []
    text = (
        f"{serving} of {serving + gone} masters answer, which is no majority: within seconds they refuse all commands"
    )
    return [
        Finding(
            DOWN, "majority", f"{text}, until more than half answer (two shards have no majority without each other)"
        )
    ]


def of_filter(lags: Sequence[Lag], live: Workers) -> list[Finding]:
    """Findings on the workers."""
    known = [row for row in lags if row.seconds is not None]
    found = [Finding(UNBALANCED, "record", str(error)) for error in live.errors if isinstance(error, FrameError)]
    free = len(live.unowned)
    if free and not live.workers:
        found.append(Finding(DOWN, "filter", "no worker is running: start `shardpulse filter`"))
    elif free:
        found.append(Finding(STALE, "filter", f"{free} partitions have no worker"))
    found += [
        Finding(NOTE, f"worker {worker.name}", _SLOW_STEP) for worker in live.workers if worker.step == compiled.NUMPY
    ]
    if len({worker.figures for worker in live.workers if worker.figures}) > 1:
        found.append(Finding(NOTE, "filter", _OTHER_FIGURES))
    for worker in live.workers:
        worst = lag_of(worker, known) or 0.0
        if worst > BEHIND_SECONDS:
            found.append(Finding(STALE, f"worker {worker.name}", f"is {worst:.0f} s behind"))
    waited = lag_of(Worker("", "", 0.0, 0.0, live.unowned), known) or 0.0
    if waited > BEHIND_SECONDS:
        found.append(Finding(STALE, "filter", f"entries have waited for {waited:.0f} s in partitions without a worker"))
    return found


def of_readers(rows: Sequence[Registered]) -> list[Finding]:
    """Findings on the registered readers of the raw streams."""
    found = []
    for row in rows:
        if row.expired:
            text = f"has stopped reporting: frames are no longer kept for it in {row.expired} partitions"
            found.append(Finding(STALE, row.name, text))
        elif row.behind_seconds > READER_BEHIND_SECONDS:
            why = row.trouble or "it or its database is down"
            found.append(Finding(STALE, row.name, f"is {row.behind_seconds:.0f} s behind: {why}"))
        elif row.trouble:
            found.append(Finding(NOTE, row.name, f"waits: {row.trouble}"))
        if row.gap:
            found.append(
                Finding(NOTE, row.name, f"{row.gap} samples are missing from it for good; its events give the reasons")
            )
    return found


def of_archived(rows: Iterable[Archived], accounts: Sequence[Account], set_names: Mapping[int, str]) -> list[Finding]:
    """Findings on counts of the archive that contradict each other."""
    names = {row.host: row.host_name for row in accounts}
    found = []
    for row in rows:
        if row.difference:
            known = set_names.get(row.resource_set, f"{row.resource_set:08x}")
            about = f"archive, host {names.get(row.host) or format(row.host, '016x')} set {known}"
            kept = f"{row.archived} are archived, {row.gap} are lost to it, {row.pending} are pending"
            text = f"of {row.made} samples {kept}: {row.difference} are unaccounted for"
            found.append(Finding(UNBALANCED, about, text))
    return found
