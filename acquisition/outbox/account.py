"""The writer's account of itself: what was made, sent, confirmed, dropped, and what went wrong."""

from __future__ import annotations

from typing import Any

from acquisition.outbox.sender import Sender
from acquisition.outbox.store import Outbox


def condition(outbox: Outbox, sender: Sender, unreadable: int) -> dict[str, Any]:
    """Ring, connections and errors by kind; ``unreadable`` counts positions that were none."""
    errors = {**sender.errors, **outbox.faults}
    if unreadable:
        errors["position"] = unreadable
    return {
        "ring": {
            "found": outbox.found,
            "bytes": outbox.bytes,
            "capacity_bytes": outbox.capacity,
            "frames": outbox.end - outbox.first,
        },
        "connections": sender.generation,
        "errors": errors,
    }


def account(outbox: Outbox, sender: Sender, unreadable: int) -> dict[str, Any]:
    """The sums over all windows, each window's row, and the condition."""
    windows = outbox.windows.values()
    return {
        "sets": {window.resource_set: window.status()._asdict() for window in windows},
        "frames": sum(window.last for window in windows),
        "made": sum(window.made for window in windows),
        "resent_frames": sum(window.counts.resent for window in windows),
        "dropped_frames": sum(window.counts.dropped_frames for window in windows),
        "dropped_samples": sum(window.counts.dropped_samples for window in windows),
        "shed_frames": sum(window.counts.shed_frames for window in windows),
        "shed_samples": sum(window.counts.shed_samples for window in windows),
        "unsent_frames": sum(window.last + 1 - window.next for window in windows),
        "problem": sender.problem,
        **condition(outbox, sender, unreadable),
    }
