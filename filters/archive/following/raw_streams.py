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

_FRAME_BYTES = 8192  #: assumed size of an entry before any was read
_MOST_ENTRIES = 2000
_ROUNDS = 60  #: covered by the longest waits: a minute


class RawStreams:
    """``followed``: partitions by number; ``read_bytes``: approximate size of a round of reads of all partitions."""

    def __init__(self, cluster: Cluster, followed: Mapping[int, Partition], read_bytes: int, log: TroubleLog) -> None:
        self._cluster, self._followed, self._read_bytes, self._log = cluster, followed, read_bytes, log
        self.clocks: dict[int, Clock] = {}  #: shard clocks at the time a partition was read
        self.samples = 0  #: new ones only
        self._idle: set[int] = set()  #: partitions without new entries
        self._places: dict[int, Address | None] = {}
        self._doubtful: set[int] = set()
        self._bytes = _FRAME_BYTES * 1.0  #: average per entry
        self._waits: deque[int] = deque(maxlen=_ROUNDS)

    @property
    def applied_after(self) -> tuple[int, int]:
        """Milliseconds from when an entry was readable to when it was taken, for the longest wait in
        each of the last 60 rounds: median and maximum."""
        return (round(median(self._waits)), max(self._waits)) if self._waits else (0, 0)

    @property
    def clock(self) -> float | None:
        """The shards' clock, seconds since 1970: the lowest possible value of any shard; None before a first read."""
        clocks = list(self.clocks.values())  # copied at once: another thread may call this
        return min((one.now / 1000.0 + time.monotonic() - one.asked for one in clocks), default=None)

    def begin(self, number: int) -> None:
        """Start following a partition, without knowledge of earlier reads."""
        self.clocks.pop(number, None)

    def doubt_all(self) -> None:
        """The shards were unavailable: they may now hold another history."""
        self._doubtful.update(self._followed)

    def read(self) -> bool:
        """Read new entries of each partition not waiting for the database; returns whether there are more."""
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
        """Check streams without new entries: one with a newest entry older than the last read one is another stream."""
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
        """Read partitions that moved, or with a shard that was unavailable, again from before the cursor: they may now
        hold another history."""
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
        """Take entries read at ``clock``, milliseconds of the shard. Returns the waiting time of the oldest one, 0
        without new ones."""
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
