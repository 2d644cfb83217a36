"""Do the books balance? Three counts: the generator's own, the writers' status, the filter's positions."""

from __future__ import annotations

from typing import Any

from acquisition.link.cluster import Cluster, read_layout
from acquisition.snapshot import books
from experiments import shard_counts


def balance(cluster: Cluster, made: int) -> dict[str, Any]:
    """The books after the drain. ``made`` samples were counted by the generator; what was neither
    applied nor is pending is lost, and so is what is still pending now."""
    final = shard_counts.read(cluster)
    totals = books.totals(books.read_books(cluster, read_layout(cluster)))
    return {
        "samples_made": made,
        "samples_reported": totals.made,
        "samples_applied": final.applied,
        "samples_invalid": final.invalid,
        "samples_pending": totals.pending,
        "samples_lost": max(totals.lost, final.lost, made - final.before - final.applied),
        "samples_duplicated": max(totals.duplicated, final.before + final.applied + final.lost - made, 0),
        "unbalanced_accounts": totals.unbalanced + totals.unreported,
        "frames_applied": final.frames,
        "frames_dropped_as_duplicates": final.duplicates,
        "frames_refused": final.refused,
    }


def problems(figures: dict[str, Any], overload: bool) -> list[str]:
    """What the books say against a run; losses are none when overload is what is measured."""
    found = []
    if figures["samples_duplicated"]:
        found.append(f"{figures['samples_duplicated']} samples were applied twice")
    if figures["samples_reported"] != figures["samples_made"]:
        found.append(f"{figures['samples_made']} samples were made, the writers report {figures['samples_reported']}")
    if figures["samples_lost"] and not overload:
        found.append(f"{figures['samples_lost']} samples were lost")
    if figures["unbalanced_accounts"] and not overload:
        found.append(f"the books of {figures['unbalanced_accounts']} hosts do not balance")
    return found
