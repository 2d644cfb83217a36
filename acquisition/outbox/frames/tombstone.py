"""Tombstones: each replaces one abandoned frame and keeps its number.

Raising the floor past it would also lose all earlier held frames, whenever a shard that came
back empty or as an older replica needs them again.
"""

from __future__ import annotations

import time
from typing import Any

from acquisition.errors import FrameError
from acquisition.outbox.frames.index import Entry
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.frames.window import SendWindow
from acquisition.wire import frame, rejected
from acquisition.wire.frame import Frame

#: Reasons to reject a frame that no filter will ever accept (reasons of ``acquisition.errors.FrameError``).
#: Others, such as ``version`` and ``partition``, pass when a filter or a layout is replaced.
HOPELESS = frozenset({"short", "magic", "crc", "shape", "internal"})
#: The frame was damaged in the ring: the probe has detected that itself.
DAMAGED = "ring"
_SHORTEST_INTERVAL, _LONGEST_INTERVAL = 1e-3, 86400.0
_INTERVAL_AT = [name for name, _ in frame.HEADER_FIELDS].index("interval")


def reason_of(entries: Any, entry: bytes) -> str:
    """Why the filter has rejected stream entry ``entry``, "" if it has not.

    ``entries`` is the reply to XRANGE of ``rejected:{tag}`` (``acquisition.wire.rejected``).
    """
    for row in entries if isinstance(entries, list) else ():
        try:
            found = rejected.decode(row[1])
            if found.entry == entry:
                return found.reason
        except (FrameError, TypeError, IndexError):
            continue  # not written by a filter
    return ""


def give_up(outbox: Outbox, window: SendWindow, sequence: int, reason: str) -> bool:
    """Replace a held frame by a tombstone; it is counted as dropped, and as an error ``retired_<reason>``.
    False if it is no longer held."""
    for index in range(outbox.first, outbox.end):
        entry = outbox.entry(index)
        if entry.window is window and entry.sequence == sequence:
            outbox.replace(index, _tombstone(outbox.host, window, entry, reason, outbox.read(index)))
            outbox.count(f"retired_{reason}")
            return True
    return False


def _tombstone(host: int, window: SendWindow, entry: Entry, reason: str, old: bytes) -> bytes:
    """The tombstone, no longer than the old one. Of the old one only what the outbox itself knows can be
    trusted: the time is when it was stored, its interval is kept if it makes sense."""
    interval = _interval(old)
    monotonic = entry.at
    wall = time.time() - (time.monotonic() - monotonic)
    return frame.encode(
        Frame(
            frame.KIND_TOMBSTONE,
            0,
            host,
            window.resource_set,
            0,
            0,
            interval,
            window.epoch,
            entry.sequence,
            min(window.floor, entry.sequence),
            entry.made,
            int(wall // interval),
            wall,
            monotonic,
            payload=reason.encode()[: entry.size - frame.HEADER_SIZE],
        )
    )


def _interval(data: bytes) -> float:
    if len(data) < frame.HEADER_SIZE:
        return 1.0
    found: float = frame.HEADER.unpack_from(data)[_INTERVAL_AT]
    return found if _SHORTEST_INTERVAL <= found <= _LONGEST_INTERVAL else 1.0
