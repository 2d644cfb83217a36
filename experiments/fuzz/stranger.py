"""Stranger: trims streams and leaves mutated fields in keys during reads."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec import structs

from acquisition.link.cluster import Cluster
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.reconcile import books, registered
from acquisition.wire import keys
from acquisition.wire.layout import Layout
from experiments.fuzz import fields, tellings
from filters.documents.encoding import encode

TRIMMED = 3  #: partitions affected
_EACH = 8  #: fields of a partition at a time


class Stranger:
    """Acts in the given partitions, and reads everything as readers do; their exceptions are passed on."""

    def __init__(self, cluster: Cluster, layout: Layout, random: Random) -> None:
        self._cluster = cluster
        self._layout = layout
        self._random = random
        self._reader = SnapshotReader(cluster.another())
        self._number = 0

    def act(self, tags: list[str]) -> None:
        """Trim and write in these partitions, then read."""
        commands: list[tuple[str, tuple[Any, ...]]] = []
        for tag in tags:
            raw = keys.raw(tag)
            commands.append((raw, ("XADD", raw, "MAXLEN", 0, "*", "f", "x")))
            self._number += 1
            for field in fields.session(self._random.getrandbits(32), self._number).fields[:_EACH]:
                commands.append(self._left(tag, field))
        self._cluster.gather(commands)
        for snapshot in (self._reader.coherent(), self._reader.latest()):
            encode([row.mean for row in snapshot.rows()])
            encode([(row.host, row.entity, row.metric) for row in snapshot.rows()])
        encode([structs.asdict(account) for account in books.read(self._cluster, self._layout).accounts])
        encode([row._asdict() for row in registered.read_archived(self._cluster, self._layout).values()])

    def _left(self, tag: str, field: fields.Field) -> tuple[str, tuple[Any, ...]]:
        """The command that writes a field of some host of the partition."""
        number = self._layout.tags.index(tag)
        host, resource_set = number + self._layout.partitions * self._random.getrandbits(2), self._random.getrandbits(2)
        member = keys.member(host, resource_set)
        if field.what in ("position", "dormant"):
            key = keys.applied(tag) if field.what == "position" else keys.dormant(tag)
            return key, ("HSET", key, member, field.data)
        if field.what in (tellings.TOLD, tellings.EVENT):
            return tellings.left(tag, field.what, field.data)
        key = {
            "table": keys.names(tag, host, resource_set),
            "commit": keys.commit(tag),
            "status": keys.status(tag, host),
            "archived": keys.archived(tag),
            "record": keys.smoothed(tag, host, resource_set, self._random.getrandbits(1)),
        }[field.what]
        return key, ("SET", key, field.data)
