"""Detection of frames that the filter has read but not applied (no I/O).

A stall is found exactly: the filter's cursor has passed the stream entry of an acknowledged frame, and yet
the frame is not applied. Then something before it is missing. A filter that is down or slow does not move its
cursor and is never taken for a stall.

A frame that no filter will ever take stalls its window each time. After RESENDS resendings the frame is
``in_doubt``: the writer then looks for it among the entries that the filter has rejected, and gives it up
only when it is there (``acquisition.outbox.frames.tombstone``). What a filter, shard or stream in trouble has not
seen is never there.
"""

from __future__ import annotations

from acquisition.wire.stream_id import is_before

#: After the k-th go-back in a row without progress, 2**k - 2 readings are skipped, at most this many.
_MOST_PATIENCE = 31
#: Resendings in vain of a frame that the filter has read, before the probe asks why it is not applied.
RESENDS = 2


class Stall:
    """State of the oldest unapplied frame of a window.

    ``suspect`` is the sequence number of the frame that was sent again because it is not applied, 0 when
    there is none, and ``suspect_id`` its newest stream id, b"" until the shard has acknowledged it.
    """

    __slots__ = ("_check", "_check_id", "_patience", "_resent", "in_doubt", "refused", "suspect", "suspect_id")

    def __init__(self) -> None:
        self.suspect = 0
        self.suspect_id = b""
        self.refused = ""  # why the filter put it aside, if that may pass
        self.in_doubt = False  # it will never be applied, perhaps: nothing is sent again before that is known
        self._resent = self._patience = self._check = 0
        self._check_id = b""

    def forget_entries(self) -> None:
        """The window went back: what the shard has acknowledged says nothing any more."""
        self._check_id = self.suspect_id = b""
        self.in_doubt = False

    def end(self) -> None:
        """More was applied than before, or the frame in doubt was given up."""
        self._resent = self._patience = 0
        self.refused = ""
        self.in_doubt = False

    def learn(self, reason: str) -> None:
        """The filter has put the suspect aside for a ``reason`` that may pass; "": it has not."""
        self.refused = reason

    def acknowledge(self, entry_id: bytes) -> None:
        """The shard has stored the suspect as ``entry_id``."""
        self.suspect_id = entry_id

    def observe(self, applied: int, acked: int, acked_id: bytes, cursor: bytes, sequence: int) -> bool:
        """Take a reading of the filter: True when the window has to go back to ``sequence``, the first number
        that is not applied. ``acked`` and ``acked_id`` are the newest acknowledged frame."""
        if not self._check_id or applied >= self._check:
            self._check, self._check_id = acked, acked_id
        if not self._check_id or applied >= self._check or is_before(cursor, self._check_id):
            return False
        if self._patience:
            self._patience -= 1
            return False
        if self._resent >= RESENDS and self.suspect_id and self.suspect == sequence:
            self.in_doubt = True
            return False
        return True

    def resend(self, sequence: int) -> None:
        """``sequence`` is sent again; the more often in a row, the more readings pass before the next time."""
        self._resent += 1
        self._patience = min(2**self._resent - 2, _MOST_PATIENCE)
        self.suspect = sequence
