"""Balance of three counts: generator, writers' status, filter positions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.snapshot.reconcile import books
from acquisition.snapshot.reconcile.books import Account, Books
from experiments.emulation.workload import host_number

_MOST_FAULTS = 10


def read(cluster: Cluster) -> Books:
    """Current counts of all hosts."""
    return books.read(cluster, read_layout(cluster))


def balance(found: Books, made: int) -> dict[str, Any]:
    """Figures of the counts after the drain. ``made`` samples were counted by the generator; samples not applied are
    lost, including those still pending now."""
    totals = books.totals(found.accounts)
    return {
        "samples_made": made,
        "samples_reported": totals.made,
        "samples_applied": totals.applied,
        "samples_invalid": totals.invalid,
        "samples_pending": totals.pending,
        "samples_lost": max(totals.lost, made - totals.before - totals.applied),
        "samples_duplicated": max(totals.duplicated, totals.before + totals.applied + totals.lost - made, 0),
        "unbalanced_accounts": totals.unbalanced + totals.unreported,
        "faults": found.faults[:_MOST_FAULTS],
        "frames_applied": totals.frames,
        "frames_resent": totals.resent_frames,
        "frames_dropped_as_duplicates": totals.duplicate_frames,
        "frames_refused": totals.refused_frames,
    }


def of_hosts(accounts: Iterable[Account], hosts: range) -> list[Account]:
    """The accounts of some emulated hosts."""
    numbers = set(map(host_number, hosts))
    return [account for account in accounts if account.host in numbers]


def incomplete(found: Books) -> set[int]:
    """Numbers of the hosts with samples made but not known to be applied."""
    return {each.host for each in found.accounts if not each.balanced or each.before + each.applied < each.made}


def problems(figures: dict[str, Any], overload: bool) -> list[str]:
    """Problems of a run by its counts; losses are no problem in a measurement of overload."""
    found = []
    if figures["samples_duplicated"]:
        found.append(f"{figures['samples_duplicated']} samples were applied twice")
    if figures["samples_reported"] != figures["samples_made"]:
        found.append(f"{figures['samples_made']} samples were made, the writers report {figures['samples_reported']}")
    if figures["samples_lost"] and not overload:
        found.append(f"{figures['samples_lost']} samples were lost")
    if figures["unbalanced_accounts"]:
        found.append(f"the books of {figures['unbalanced_accounts']} hosts do not balance")
    return [*found, *figures["faults"]]
