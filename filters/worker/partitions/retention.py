"""Retention of a raw stream: what stays behind the filter's cursor, and trims."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from acquisition.link.resp import pack
from acquisition.wire import keys, readers
from acquisition.wire.readers import Cut
from acquisition.wire.stream_id import is_before
from filters.worker.partitions.settings import FilterSettings

_TRIM_EVERY = 1.0  #: seconds between two trims: one of many entries costs a shard less than many of one
_PIECES = 16  #: of either retention, at least: entries that came together go together
_LONGEST_PIECE = 1000  #: milliseconds


class Trim(NamedTuple):
    """Entries up to ``last`` go; ``cut`` says that a living reader had still wanted some of them."""

    last: bytes
    cut: bool


class Kept:
    """Pieces of the stream, oldest first: the newest entry and the bytes of each.

    Bytes win over seconds. While a reader's claim holds, the limits are those for readers.
    """

    def __init__(self, settings: FilterSettings) -> None:
        self._settings = settings
        self._pieces: deque[tuple[bytes, int]] = deque()
        self._bytes = 0
        self._began = 0  #: the newest piece, milliseconds of the first id in it
        self._span = min(_LONGEST_PIECE, round(1000 * settings.retention_seconds / _PIECES))
        self._size = settings.retention_bytes // _PIECES
        self._claim: bytes | None = None
        self._asked = False  #: whether the claims are known

    def add(self, entry: bytes, size: int) -> None:
        """So many bytes more up to this entry."""
        self._bytes += size
        now = int(entry.partition(b"-")[0])
        pieces = self._pieces
        if pieces and 0 <= now - self._began < self._span and pieces[-1][1] + size <= self._size:
            pieces[-1] = entry, pieces[-1][1] + size
        else:
            pieces.append((entry, size))
            self._began = now

    def clear(self) -> None:
        """Everything is gone."""
        self._pieces.clear()
        self._bytes = 0

    def claim(self, cursor: bytes | None) -> None:
        """The oldest cursor of the living readers, as the shard says; None: there are none."""
        self._claim, self._asked = cursor, True

    @property
    def overflowing(self) -> bool:
        """Whether it is more than may be kept for anybody who was seen."""
        settings = self._settings
        most = settings.retention_bytes if self._claim is None else settings.most_reader_bytes
        return self._bytes > most

    def trim(self, now: float) -> Trim | None:
        """Take out what may go at ``now`` (seconds since 1970); None when nothing does, or no claim is known yet."""
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
    """Pieces of one raw stream, and when they are trimmed."""

    def __init__(self, tag: str, settings: FilterSettings) -> None:
        self.kept = Kept(settings)
        self._stream, self._cut = keys.raw(tag), keys.cut(tag)
        self._claims = b"".join(map(pack, (("HGETALL", keys.readers(tag)), ("TIME",))))
        self._every = min(_TRIM_EVERY, settings.retention_seconds / 4.0)
        self._due = 0.0

    def trim_commands(self, now: float) -> list[bytes]:
        """XTRIM of what may go by the claims known so far, then HGETALL and TIME, whose replies are for
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
        """Keep what other readers of the stream still want, by the replies to HGETALL and TIME."""
        self.kept.claim(readers.oldest_claim(fields, clock))


def after(entry: bytes) -> bytes:
    """The smallest id greater than that of an entry."""
    milliseconds, _, number = entry.partition(b"-")
    return b"%s-%d" % (milliseconds, int(number) + 1)
