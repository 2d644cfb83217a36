"""Roster: hosts seen before and gone, and partitions that came back empty.

The roster is in the shards, beside the positions of dormant sets, and in the memory of each filter worker, which
writes it again into a shard that has come back empty. If shards and filters were all restarted it is gone, and the
reader reports since when.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from acquisition.errors import FrameError, PermissionRefused, ShardpulseError, TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.snapshot.values.members import value_of
from acquisition.wire import keys, seen
from acquisition.wire.layout import Layout
from acquisition.wire.seen import Seen

_MOST_NAMED = 5
#: Seconds for which a host lost by its shard stays visible, and for which readings warn that hosts may be
#: missing: probes come back within seconds. Filters forget only hosts that have been silent for very long.
KEPT = 60.0
LOST = TemporaryError("shards have just lost their data about hosts")


class Roster(NamedTuple):
    """``gone`` are the expired hosts, ordered by when they were last seen. ``refilled`` is when a shard was last
    found empty, in seconds since 1970, 0.0: never. ``unread`` of all ``partitions`` could not be read."""

    gone: Sequence[Seen]
    refilled: float
    unread: int
    partitions: int


def read(cluster: Cluster, layout: Layout, now: float) -> Roster:
    """The roster at ``now``, seconds since 1970. Raises ShardError if no shard answers at all."""
    commands = [
        (key, (word, key))
        for tag in layout.tags
        for word, key in (("HGETALL", keys.dormant(tag)), ("GET", keys.began(tag)))
    ]
    replies = [value_of(reply) for reply in cluster.gather(commands)]
    gone: dict[int, Seen] = {}
    unread, refilled = 0, 0.0
    for rows, began in zip(replies[::2], replies[1::2], strict=True):
        if not isinstance(rows, list):
            unread += 1
            continue
        found = (seen.decode(*pair) for pair in zip(rows[::2], rows[1::2], strict=True))
        gone |= {one.host: one for one in found if one is not None and now - one.last < seen.KEPT_SECONDS}
        if isinstance(began, bytes) and began.isdigit() and len(began) < 16:
            refilled = max(refilled, int(began) / 1000.0)
    return Roster(sorted(gone.values(), key=lambda one: one.last), refilled, unread, len(layout.tags))


def blindness(found: Roster) -> str:
    """Why a reader without any host is blind."""
    if found.gone:
        last = found.gone[-1].last
        empty = found.refilled > last
        why = f"since the shards came back empty at {moment(found.refilled)}" if empty else f"since {moment(last)}"
        return f"no host is visible {why}: {missed(found.gone)}"
    if found.unread:
        return f"no host is visible: {found.unread} of {found.partitions} partitions cannot be read"
    if found.refilled:
        return f"no host is visible: none has sent since the shards came back empty at {moment(found.refilled)}"
    return (
        "no host is visible: no samples yet, or all hosts were forgotten; are `shardpulse probe` and "
        "`shardpulse filter` running?"
    )


def missed(gone: Sequence[Seen]) -> str:
    """Text about expired hosts."""
    names = ", ".join(one.name for one in gone[: -_MOST_NAMED - 1 : -1])
    more = f" and {len(gone) - _MOST_NAMED} more" * (len(gone) > _MOST_NAMED)
    return (
        f"{len(gone)} known host{'s' * (len(gone) != 1)} expired after [filter] expire_seconds without "
        f"samples ({names}{more}); remove one that is gone for good with `shardpulse hosts forget NAME`"
    )


def moment(seconds: float) -> str:
    """A date and a time of day, UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


class RefillReader:
    """A reader cannot miss a host it has never seen: so it reads how long each partition has held its data, until
    it has found the partition complete once. From then on it remembers its hosts (``PositionReader``)."""

    def __init__(self, layout: Layout) -> None:
        self._commands = [(keys.began(tag), ("MGET", keys.began(tag), keys.commit(tag))) for tag in layout.tags]
        self._open = self._commands  #: not yet found complete
        self._last = -math.inf

    def read(self, cluster: Cluster, now: float, errors: Sequence[ShardpulseError]) -> list[ShardpulseError]:
        """LOST, if a partition has been emptied within the last minute and was not found complete before; ``errors``
        are those of the reading so far: with shards that do not answer, they are reported, and nothing is read. Beside
        it, errors about forbidden reads.

        Raises ShardError if no shard answers at all.
        """
        if not 0.0 <= now - self._last < KEPT / 2:  # it has lost its memory
            self._open = self._commands
        self._last = now
        if not self._open or not all(isinstance(error, FrameError) for error in errors):
            return []
        replies = [value_of(reply) for reply in cluster.gather(self._open)]
        found = [_is_lost(reply, now) for reply in replies]
        self._open = [command for command, lost in zip(self._open, found, strict=True) if lost is not False]
        refused = {str(reply): reply for reply in replies if isinstance(reply, PermissionRefused)}
        return [*refused.values(), *([LOST] if True in found else [])]


def _is_lost(reply: Any, now: float) -> bool | None:
    """Whether a partition has just been found empty, or is not marked as empty yet; None: unknown."""
    if not isinstance(reply, list):
        return None
    began, commit = reply
    if began is None:
        return commit is None
    return began.isdigit() and int(began) > 0 and abs(now - int(began) / 1000.0) < KEPT
