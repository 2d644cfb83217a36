"""Raw stream reader of an archiver: one round trip per shard."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster, Command
from acquisition.link.resp import Address, ReplyError, error_for
from acquisition.log import SHARDS, TroubleLog
from acquisition.wire import keys, readers
from acquisition.wire.stream_id import is_before, parse
from filters.archive.following.claims import Clock
from filters.archive.following.partition import Partition

_FRAME_BYTES = 8192  #: what an entry is taken to weigh before any was seen
_MOST_ENTRIES = 2000
_ROUNDS = 60  #: of which the longest waits are known: a minute


class RawStreams:
    """``followed`` are partitions by number, ``read_bytes`` what one round reads of all together: some, not exactly."""

    def __init__(self, cluster: Cluster, followed: Mapping[int, Partition], read_bytes: int, log: TroubleLog) -> None:
        self._cluster, self._followed, self._read_bytes, self._log = cluster, followed, read_bytes, log
        self.clocks: dict[int, Clock] = {}  #: of the shards, when a partition was read
        self.samples = 0  #: that were new
        self._idle: set[int] = set()  #: partitions in which nothing had come
        self._places: dict[int, Address | None] = {}
        self._doubtful: set[int] = set()
        self._bytes = _FRAME_BYTES * 1.0  #: of an entry, on average
        self._waits: deque[int] = deque(maxlen=_ROUNDS)

    @property
    def applied_after(self) -> tuple[int, int]:
        """Milliseconds from when an entry could be read to when it was taken, of the entry that waited longest in
        each of the last 60 rounds: the median and the longest."""
        return (round(median(self._waits)), max(self._waits)) if self._waits else (0, 0)

    @property
    def clock(self) -> float | None:
        """The shards' clock, seconds since 1970: the least that one of them may show; None while none was asked."""
        clocks = list(self.clocks.values())  # at once: another thread may ask
        return min((one.now / 1000.0 + time.monotonic() - one.asked for one in clocks), default=None)

    def begin(self, number: int) -> None:
        """A partition is followed from now on: nothing is known of when it was read."""
        self.clocks.pop(number, None)

    def doubt_all(self) -> None:
        """The shards were away: what they hold now may be another history."""
        self._doubtful.update(self._followed)

    def read(self) -> bool:
        """Read what has come in each partition, but for those that wait for the database; whether there is more."""
        numbers = sorted(number for number, partition in self._followed.items() if not partition.sought)
        if not numbers:
            return False
        count = max(1, min(_MOST_ENTRIES, round(self._read_bytes / len(numbers) / self._bytes)))
        self._doubt_those_that_moved(numbers)
        commands: list[Command] = []
        for number in numbers:
            tag = self._followed[number].tag
            name = keys.raw(tag)
            read = ("XREAD", "COUNT", count, "STREAMS", name, self._followed[number].read)
            commands += [(name, ("GET", keys.cut(tag))), (name, read), (name, ("TIME",))]
        asked = time.monotonic()
        replies = self._cluster.gather(commands)
        more, longest = False, 0.0
        for place, number in enumerate(numbers):
            answers = replies[3 * place : 3 * place + 3]
            refused = [answer for answer in answers if self._refused(number, answer)]
            if refused:
                continue
            mark, found, clock = answers
            if mark is not None:
                self._followed[number].see_cut(mark)
            entries = found[0][1] if found else []
            more |= len(entries) == count
            now = readers.milliseconds(clock)
            waited = self._take(number, entries, count, now)
            longest = max(longest, waited and waited + 1000 * (time.monotonic() - asked))
        if longest:
            self._waits.append(round(longest))
        return more

    def look_back(self) -> None:
        """Streams in which nothing has come: one whose newest entry is older than what was read is another one."""
        commands: list[Command] = []
        numbers = sorted(self._idle & self._followed.keys())
        for number in numbers:
            name = keys.raw(self._followed[number].tag)
            commands.append((name, ("XREVRANGE", name, "+", "-", "COUNT", 1)))
        for number, reply in zip(numbers, self._cluster.gather(commands), strict=True):
            partition = self._followed[number]
            if self._refused(number, reply) or not parse(partition.read)[0]:
                continue
            if not reply or is_before(reply[0][0], partition.read):
                partition.begin_anew()

    def _doubt_those_that_moved(self, numbers: Iterable[int]) -> None:
        """A partition that lies elsewhere, or whose shard was away, is read again from before the cursor: what is there
        now may be another history."""
        for number in numbers:
            place = self._cluster.known_owner(keys.raw(self._followed[number].tag))
            if number in self._doubtful or self._places.setdefault(number, place) != place:
                self._followed[number].rewind()
                self._places[number] = place
        self._doubtful.difference_update(numbers)

    def _refused(self, number: int, reply: Any) -> bool:
        if not isinstance(reply, ReplyError | ShardpulseError):
            return False
        error = error_for(reply) if isinstance(reply, ReplyError) else reply
        self._doubtful.add(number)
        self._log.fails(SHARDS, error)
        return True

    def _take(self, number: int, entries: list[Any], count: int, clock: int) -> int:
        """Take entries that were read at ``clock``, milliseconds of the shard; how long before the oldest of them had
        come, 0 where they are none or were read before."""
        partition = self._followed[number]
        again = bool(entries) and not is_before(partition.reached, entries[0][0])
        self.samples += partition.take(entries)
        (self._idle.discard if entries else self._idle.add)(number)
        whole = len(entries) < count and not partition.sought
        until = clock if whole else min(clock, parse(partition.read)[0])
        self.clocks[number] = Clock(until, clock, time.monotonic())
        if not entries:
            return 0
        size = sum([len(fields[1]) for _, fields in entries if isinstance(fields, list) and len(fields) > 1])
        self._bytes += (max(64.0, size / len(entries)) - self._bytes) / 16
        return 0 if again else max(1, clock - parse(entries[0][0])[0])
