"""Raw stream: cursor, read sizes, a second lane during a flood, and retention.

While a filter is behind, a host that sends many times as much as its neighbours is *late*: the front reading skips
its entries, and the second reading, from the cursor on, takes them afterwards, in order. Nothing waits in
memory, and nothing is lost: entries read again after a restart are dropped by the rule of numbers (sequence).

Entries before the cursor are kept for a while, longer for the other readers of the stream, and then trimmed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence, Sized
from typing import Any, NamedTuple

from acquisition.link.resp import front, pack, word
from acquisition.wire import keys, readers
from acquisition.wire.frame import HEADER_SIZE
from acquisition.wire.readers import Cut
from acquisition.wire.stream_id import is_before
from filters.worker.partitions.settings import FilterSettings

START = b"0-0"
_XREAD = {readings: front(6 + 2 * readings, "XREAD", "COUNT") for readings in (1, 2)}
_BLOCK, _STREAMS = word(b"BLOCK"), word(b"STREAMS")
_MOST_ENTRIES = 512
MOST_BYTES = 1 << 20  #: per read

_ALONE = 3  #: front reads per read of both, while there is much in front
_PATIENCE = 4  #: consecutive full reads before a host is late
_SHARE, _TIMES = 0.25, 4.0  #: of the bytes read, and of the average of the other hosts: more is a flood
_HOST = slice(16, 24)  #: of a frame (acquisition.wire.frame.HEADER_FIELDS)

_TRIM_EVERY = 1.0  #: seconds between two trims: one of many entries costs a shard less than many of one
_PIECES = 16  #: minimum per retention limit: entries that came together are removed together
_LONGEST_PIECE = 1000  #: milliseconds

#: Entries of a stream: each an id and the fields, as a list.
Entries = list[Any]


class Read(NamedTuple):
    """``entries`` to take now; ``size``: bytes passed up to ``cursor``."""

    entries: Entries
    cursor: bytes
    size: int


class Lanes:
    """Two readings of one stream. ``front``: newest entry of the front one, b"" while there is only one."""

    def __init__(self) -> None:
        self.front = b""
        self._late: dict[bytes, bytes] = {}  #: by host, the entry after which its frames wait
        self._full = False  #: whether there is more in front
        self._full_reads = 0
        self._alone = 0  #: front reads since the last turn of the second one
        self._both = False
        self._fresh: Entries = []  #: new entries in front, including those of late hosts

    def starts(self, cursor: bytes) -> tuple[bytes, ...]:
        """Entries after which the next read begins, for each reading: the front one is read first if there is
        much, so that neighbours are reached soon."""
        self._both = bool(self.front) and cursor != self.front and not (self._full and self._alone < _ALONE)
        self._alone = 0 if self._both else self._alone + 1
        return (self.front, cursor) if self._both else (self.front or cursor,)

    def arrange(self, found: list[Entries], cursor: bytes, most: int) -> Read:
        """Entries to take from a read from ``starts``, of ``most`` entries each."""
        fresh = next((entries for entries in found if is_before(self.front, entries[0][0])), [])
        second = next((entries for entries in found if not is_before(self.front, entries[0][0])), [])
        taken = [one for one in second if self._waits(one)]
        front, self._full = fresh[-1][0] if fresh else self.front, len(fresh) >= most
        self._fresh = fresh
        follows = self._both or (cursor == self.front and not fresh)
        caught_up = not second or not is_before(second[-1][0], self.front)
        if follows and caught_up and not self._full:
            self.front, self._late = b"", {}
            return Read([*taken, *fresh], front, size_of(second) + size_of(fresh))
        taken += [one for one in fresh if _host(one) not in self._late]
        passed = cursor if not self._both else self.front if caught_up else second[-1][0]
        self.front = front
        return Read(taken, passed, size_of(second))

    def watch(self, entries: Entries, hosts: Sized, full: bool, cursor: bytes) -> None:
        """Look for floods by one of ``hosts`` among the entries of a read; ``full``: whether the read was full."""
        self._full_reads = self._full_reads + 1 if (self._full if self.front else full) else 0
        if self._full_reads < _PATIENCE or len(hosts) < 2:
            return
        others = len(hosts) - 1
        self._full_reads = 0
        weights: Counter[bytes] = Counter()
        for one in self._fresh if self.front else entries:
            weights[_host(one)] += size_of([one])
        total = weights.total()
        for host, weight in weights.items():
            if host and weight >= _SHARE * total and weight * others > _TIMES * (total - weight):
                if not self.front:
                    self.front, self._full, self._alone = cursor, True, 0
                self._late.setdefault(host, self.front)

    def _waits(self, entry: Any) -> bool:
        """Whether the front reading has skipped it."""
        since = self._late.get(_host(entry))
        return since is not None and is_before(since, entry[0]) and not is_before(self.front, entry[0])


class Trim(NamedTuple):
    """Entries up to ``last`` are removed; ``cut``: a living reader still needed some of them."""

    last: bytes
    cut: bool


class Kept:
    """Pieces of the stream, oldest first: newest entry and bytes of each.

    The limit of bytes overrides that of seconds. While a reader's claim holds, the limits for readers apply.
    """

    def __init__(self, settings: FilterSettings) -> None:
        self._settings = settings
        self._pieces: deque[tuple[bytes, int]] = deque()
        self._bytes = 0
        self._began = 0  #: of the newest piece: milliseconds of its first id
        self._span = min(_LONGEST_PIECE, round(1000 * settings.retention_seconds / _PIECES))
        self._size = settings.retention_bytes // _PIECES
        self._claim: bytes | None = None
        self._asked = False  #: whether the claims are known

    def add(self, entry: bytes, size: int) -> None:
        """Add ``size`` bytes up to this entry."""
        self._bytes += size
        now = int(entry.partition(b"-")[0])
        pieces = self._pieces
        if pieces and 0 <= now - self._began < self._span and pieces[-1][1] + size <= self._size:
            pieces[-1] = entry, pieces[-1][1] + size
        else:
            pieces.append((entry, size))
            self._began = now

    def clear(self) -> None:
        """Remove all pieces."""
        self._pieces.clear()
        self._bytes = 0

    def claim(self, cursor: bytes | None) -> None:
        """Set the oldest cursor of the living readers, from the shard; None without living readers."""
        self._claim, self._asked = cursor, True

    @property
    def overflowing(self) -> bool:
        """Whether the size exceeds the limit, even for known readers."""
        settings = self._settings
        most = settings.retention_bytes if self._claim is None else settings.most_reader_bytes
        return self._bytes > most

    def trim(self, now: float) -> Trim | None:
        """Remove pieces that are due at ``now`` (seconds since 1970); None if there are none, or claims are unknown."""
        settings, claim = self._settings, self._claim
        last, cut = None, False
        while self._asked and len(self._pieces) > 1:
            entry, size = self._pieces[0]
            age = now - int(entry.partition(b"-")[0]) / 1000.0
            if age <= settings.retention_seconds and self._bytes <= settings.retention_bytes:
                break
            if claim is not None and is_before(claim, entry):
                if age <= settings.most_reader_seconds and self._bytes <= settings.most_reader_bytes:
                    break
                cut = True
            last = entry
            self._pieces.popleft()
            self._bytes -= size
        return None if last is None else Trim(last, cut)


class Retention:
    """Pieces of one raw stream, and the times of trims."""

    def __init__(self, tag: str, settings: FilterSettings) -> None:
        self.kept = Kept(settings)
        self._stream, self._cut = keys.raw(tag), keys.cut(tag)
        self._claims = b"".join(map(pack, (("HGETALL", keys.readers(tag)), ("TIME",))))
        self._every = min(_TRIM_EVERY, settings.retention_seconds / 4.0)
        self._due = 0.0

    def trim_commands(self, now: float) -> list[bytes]:
        """XTRIM according to the claims known so far, then HGETALL and TIME, with replies for
        ``apply_reader_claims``; [] while nothing is due. ``now`` in seconds since 1970."""
        if now < self._due and not self.kept.overflowing:
            return []
        self._due = now + self._every
        trim = self.kept.trim(now)
        commands = [self._claims]
        if trim is not None:
            first = after(trim.last)
            commands.insert(0, pack(("XTRIM", self._stream, "MINID", first)))
            if trim.cut:
                commands.insert(0, pack(("SET", self._cut, readers.encode_cut(Cut(first, 0)))))
        return commands

    def apply_reader_claims(self, fields: Sequence[Any], clock: list[bytes]) -> None:
        """Keep entries still needed by other readers of the stream, according to the replies to HGETALL and TIME."""
        self.kept.claim(readers.oldest_claim(fields, clock))


class RawStream:
    """Progress of a partition in its stream.

    Everything up to ``cursor`` was taken; ``has_more``: whether the last read was full.
    """

    def __init__(self, tag: str, settings: FilterSettings) -> None:
        self.cursor = START
        self.has_more = False
        self.retention = Retention(tag, settings)
        self._watch = b"".join(pack((command, keys.commit(tag))) for command in ("WATCH", "GET"))
        self._key = word(keys.raw(tag).encode())
        self._most_entries = _MOST_ENTRIES  #: of the next read, by the frames of the last one
        self._lanes = Lanes()
        self._read: Read | None = None  #: the newest one while there are two readings

    def resume(self, cursor: bytes) -> None:
        """Continue after an entry."""
        self.cursor = cursor

    def renew(self) -> None:
        """Continue at the beginning of a stream that was read to its end and removed."""
        self.cursor = START
        self._lanes, self._read = Lanes(), None
        self.retention.kept.clear()

    def read_command(self, block_seconds: float) -> bytes:
        """WATCH, GET of the commit id, and the blocking read of entries: three replies."""
        wait = 0.001 if self._lanes.front else block_seconds  # the second reading has work to do
        count, block = b"%d" % self._most_entries, b"%d" % round(wait * 1000.0)
        starts = self._lanes.starts(self.cursor)
        streams = [_STREAMS, *[self._key] * len(starts), *map(word, starts)]
        return b"".join((self._watch, _XREAD[len(starts)], word(count), _BLOCK, word(block), *streams))

    def entries_of(self, reply: list[Any] | None) -> Entries:
        """Entries to take from a reply to ``read_command``; None: nothing came, or it was trimmed by someone else."""
        found = [entries for _, entries in reply or ()]
        self._read = None
        if not self._lanes.front:
            entries = found[0] if found else []
            self.has_more = len(entries) >= self._most_entries
            return entries
        read = self._lanes.arrange(found, self.cursor, self._most_entries)
        self.has_more = True
        self._fit(sum(map(len, found)), sum(map(size_of, found)), MOST_BYTES)
        if read.entries:
            self._read = read
        else:
            self._pass(read.cursor, read.size)
        return read.entries

    def advance(self, entries: Entries, size: int, hosts: Sized, most_bytes: int) -> None:
        """Continue after entries that were taken, with ``size`` bytes of frames; ``hosts``: the known ones.

        The next read returns about ``most_bytes``: while a worker is saturated, every partition gets its turn.
        """
        read, self._read = self._read, None
        self._pass(*((entries[-1][0], size) if read is None else (read.cursor, read.size)))
        self._lanes.watch(entries, hosts, self.has_more, self.cursor)
        if read is None:
            self._fit(len(entries), size, most_bytes)

    def _fit(self, count: int, size: int, most_bytes: int) -> None:
        """Set the number of entries of the next read, by the sizes of the last ones."""
        self._most_entries = min(_MOST_ENTRIES, 1 + min(MOST_BYTES, most_bytes) * count // (size + 1))

    def _pass(self, cursor: bytes, size: int) -> None:
        self.cursor = cursor
        if size:
            self.retention.kept.add(cursor, size)


def _host(entry: Any) -> bytes:
    """The host named by an entry, as bytes; b"" if it is not a frame."""
    data = entry[1][1] if isinstance(entry[1], list) and len(entry[1]) > 1 else b""
    return data[_HOST] if len(data) >= HEADER_SIZE else b""


def size_of(entries: Entries) -> int:
    """Bytes of the frames in entries."""
    return sum(len(fields[1]) for _, fields in entries if isinstance(fields, list) and len(fields) > 1)


def after(entry: bytes) -> bytes:
    """The smallest id greater than that of an entry."""
    milliseconds, _, number = entry.partition(b"-")
    return b"%s-%d" % (milliseconds, int(number) + 1)
