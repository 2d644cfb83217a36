"""Witness of events beside the samples: services, ownership, reported moves.

Ownership means the worker and the shard of a partition.

Events are read from their streams, which are capped, and from the start when in doubt: an event is one row however
often it is written. The worker that smooths a partition and its shard are looked up and reported there like
all other events, so that each change is recorded once, whichever archiver follows the partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from acquisition.errors import FrameError
from acquisition.link import happenings
from acquisition.link.cluster import Cluster, Command
from acquisition.link.happenings import Happening, Turn
from acquisition.wire import keys, lease
from acquisition.wire.stream_id import is_before
from filters.archive.following.entry_ids import START
from filters.archive.following.partition import Partition
from filters.archive.minutes.values import Event

_MOST = 1000  #: maximum of events of a partition at a time
_PHASES = {b"started": "move_reported", b"finished": "move_done", b"failed": "move_failed"}
_FIRST = 0  #: its follower reads the log of migrations


class Witness:
    """``look`` runs every few seconds; its findings are committed with their partition."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read: dict[str, tuple[Partition, bytes]] = {}  #: stream -> its partition, position
        self._seen: dict[tuple[int, str], str] = {}

    def look(self, followed: Mapping[int, Partition], now: float) -> None:
        """Read the events of these partitions. ``now`` in seconds since 1970. Raises ShardError."""
        streams = {keys.events(partition.tag): partition for partition in followed.values()}
        if _FIRST in followed:
            streams[keys.MIGRATIONS] = followed[_FIRST]
        behind = self._behind(streams)
        replies = self._cluster.gather(
            [(name, ("XREAD", "COUNT", _MOST, "STREAMS", name, read)) for name, read in behind.items()]
        )
        for name, reply in zip(behind, replies, strict=True):
            if isinstance(reply, list) and reply:
                entries = reply[0][1]
                for event in map(_reported if name == keys.MIGRATIONS else _happened, entries):
                    if event is not None:
                        streams[name].happened(event)
                self._read[name] = streams[name], entries[-1][0]
        names = [keys.lease(partition.tag) for partition in followed.values()]
        leases = self._cluster.gather([(name, ("GET", name)) for name in names])
        pairs = zip(followed.values(), leases, strict=True)
        self._cluster.gather([command for partition, held in pairs for command in self._holders(partition, held, now)])

    def _behind(self, streams: Mapping[str, Partition]) -> dict[str, bytes]:
        """Streams with new entries, and the position to read from; a stream that went back starts over, as does
        one of a partition that was loaded again."""
        replies = self._cluster.gather([(name, ("XREVRANGE", name, "+", "-", "COUNT", 1)) for name in streams])
        found = {}
        for (name, partition), reply in zip(streams.items(), replies, strict=True):
            if isinstance(reply, list) and reply:
                known, read = self._read.get(name, (partition, START))
                newest = reply[0][0]
                start = START if known is not partition or is_before(newest, read) else read
                if is_before(start, newest):
                    found[name] = start
        return found

    def _holders(self, partition: Partition, held: Any, now: float) -> Iterator[Command]:
        """An event for each change of worker or shard."""
        place = self._cluster.known_owner(keys.lease(partition.tag))
        holders = {"shard": "" if place is None else str(place), "worker": _worker(held)}
        for kind, holder in holders.items():
            if holder and self._seen.get((partition.number, kind)) != holder:
                self._seen[(partition.number, kind)] = holder
                details = {"partition": partition.number, "now": holder}
                yield from happenings.commands(
                    partition.tag, [Happening(kind, holder, Turn.CHANGE, now, kind, "", details)]
                )


def _worker(reply: Any) -> str:
    try:
        return lease.decode(reply).name if isinstance(reply, bytes) else ""
    except FrameError:
        return ""


def _happened(entry: tuple[bytes, Any]) -> Event | None:
    found = happenings.decode(*entry)
    if found is None:
        return None
    details = {**found.details, "before": found.before} if found.before else found.details
    return Event(found.time, found.kind, found.host, None, details)


def _reported(entry: tuple[bytes, Any]) -> Event | None:
    """A migration reported by a scheduler."""
    try:
        fields = dict(zip(entry[1][::2], entry[1][1::2], strict=True))
        details = {key: fields[key.encode()].decode() for key in ("vm", "source", "destination", "reason")}
        host, kind = int(details["source"], 16), _PHASES[fields[b"phase"]]
    except (KeyError, TypeError, ValueError):
        return None
    return Event(int(entry[0].partition(b"-")[0]) / 1000.0, kind, host if host < 1 << 64 else None, None, details)
