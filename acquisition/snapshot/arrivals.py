"""What has come of one resource set since it was asked last: the newest record of each host, once it is committed.

A coherent tick waits for the last host; who wants the newest of each asks again and again. A partition is read again
only where its commit id is another one, and of its hosts only those whose position has moved. The id is asked for
before the rest, so that what is held is never older than it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.link.cluster import Cluster
from acquisition.link.routing import Batch
from acquisition.model import ticks
from acquisition.snapshot.reading import judgement
from acquisition.snapshot.reading.judgement import Due
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.members import Member, Place, read_records
from acquisition.snapshot.values.states import CURRENT
from acquisition.wire import keys, position
from acquisition.wire.layout import Layout


class _Held(NamedTuple):
    """What a partition said last: its commit id, and its positions by field."""

    commit: bytes = b""
    positions: Mapping[bytes, bytes] = {}


class ArrivalReader:
    """Reads one resource set of all hosts, again and again."""

    def __init__(self, layout: Layout, set_id: int) -> None:
        self._tags = layout.tags
        self._set_id = set_id
        self._commits = Batch([(keys.commit(tag), ("GET", keys.commit(tag))) for tag in layout.tags])
        self._held: dict[str, _Held] = {}

    def take(self, cluster: Cluster, due: Due) -> list[tuple[Member, Block]]:
        """The hosts with a new record that is not behind what is due, each with its block, current, without names and
        age; at first all of them. What cannot be read, or is damaged, is left out. Raises ShardError when no shard
        is known."""
        commits = dict(zip(self._tags, cluster.ask(self._commits), strict=True))
        changed = {
            tag: commit
            for tag, commit in commits.items()
            if isinstance(commit, bytes) and commit != self._held.get(tag, _Held()).commit
        }
        replies = cluster.gather([(keys.applied(tag), ("HGETALL", keys.applied(tag))) for tag in changed])
        begun = [
            (member, block)
            for (tag, commit), reply in zip(changed.items(), replies, strict=True)
            for member, block in self._moved(tag, commit, reply)
            if not block.reason and block.tick >= due.tick(block.interval)
        ]
        slots = [(member, ticks.slot_of(block.tick, due.keep_ticks)) for member, block in begun]
        for (_, block), value in zip(begun, read_records(cluster, slots) if slots else (), strict=True):
            judgement.judge_coherent(block, value, block.tick, due)
        return [(member, block) for member, block in begun if block.state == CURRENT]

    def _moved(self, tag: str, commit: bytes, reply: Any) -> Iterator[tuple[Member, Block]]:
        """The members of a partition whose position is another one than before."""
        if not isinstance(reply, list):
            return  # it is on its way to another shard, or that does not answer
        before = self._held.get(tag, _Held()).positions
        positions = dict(zip(reply[::2], reply[1::2], strict=True))
        self._held[tag] = _Held(commit, positions)
        for field, record in positions.items():
            named = keys.parse_member(field) if before.get(field) != record else None
            if named is None or named[1] != self._set_id:
                continue
            member = Member(tag, *named, keys.smoothed(tag, *named, 0)[:-1])
            try:
                yield member, judgement.begin(member, Place(position.decode(record), None))
            except FrameError:
                continue
