"""Records of chosen rows, asked for with what is packed beforehand, and taken as they come where all have one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import hiredis
import numpy as np
import numpy.typing as npt

from acquisition.link.batch import Batch, Packed
from acquisition.link.cluster import Cluster
from acquisition.link.resp import ReplyError
from acquisition.snapshot.even_replies import Bytes, EvenReply, values_of
from acquisition.snapshot.record_arrays import Rows
from acquisition.snapshot.shard_reading import Member


class Answered(NamedTuple):
    """``values`` (k, size) of all rows in their order if all have the ``size`` that was expected; else the ``replies``
    to MGET for each of ``parts``, so many rows of one partition."""

    values: Bytes | None
    parts: Sequence[int]
    replies: Sequence[Any]


class RecordQuestions:
    """Asks for the records of some of ``members``, those of a partition adjacent, each in its slot."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        tags = [member.tag for member in members]
        first = [at for at, tag in enumerate(tags) if not at or tag != tags[at - 1]]
        self._starts = np.array(first, np.intp)
        self._keys: dict[int, list[bytes]] = {}  #: of all members, as they are sent, by slot

    def ask(self, cluster: Cluster, places: Rows, slots: npt.NDArray[np.int64], size: int) -> Answered:
        """The records of these rows, in rising order, each in its slot. Raises ShardError when no shard answers."""
        keys = self._keys_of(places.tolist(), slots.tolist())
        ends = [*np.searchsorted(places, self._starts[1:]).tolist(), len(places)]
        commands, parts, first = list[Packed](), list[int](), 0
        for end in ends:
            if end > first:
                words = b"".join(keys[first:end])
                commands.append(
                    (self._members[int(places[first])].prefix, b"*%d\r\n$4\r\nMGET\r\n%s" % (end - first + 1, words))
                )
                parts.append(end - first)
            first = end
        batch = Batch(commands)
        raw = cluster.ask_raw(batch)
        if raw is None:
            return Answered(None, parts, cluster.gather(batch))
        values = values_of(batch, raw, [EvenReply.of_list(count, size) for count in parts])
        if values is not None:
            return Answered(values, parts, ())
        replies = _parsed(batch, raw)
        return Answered(
            None, parts, cluster.gather(batch) if any(isinstance(each, ReplyError) for each in replies) else replies
        )

    def _keys_of(self, places: Sequence[int], slots: Sequence[int]) -> list[bytes]:
        for slot in set(slots).difference(self._keys):
            names = [f"{member.prefix}{slot}".encode() for member in self._members]
            self._keys[slot] = [b"$%d\r\n%s\r\n" % (len(name), name) for name in names]
        by_slot = self._keys
        return [by_slot[slot][place] for place, slot in zip(places, slots, strict=True)]


def _parsed(batch: Batch, raw: Sequence[memoryview]) -> list[Any]:
    """The replies, in the order of the commands."""
    replies: list[Any] = [None] * len(batch.commands)
    for route, answer in zip(batch.routes, raw, strict=True):
        reader = hiredis.Reader()
        reader.feed(bytes(answer))
        for index in route.indexes:
            replies[index] = reader.gets()
    return replies
