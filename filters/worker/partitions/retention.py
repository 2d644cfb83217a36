"""What a partition keeps of its raw stream behind the filter's cursor, and what of it may go."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from acquisition.wire.stream_id import is_before
from filters.worker.partitions.settings import FilterSettings

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
