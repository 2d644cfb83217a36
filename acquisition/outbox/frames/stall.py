"""Detection of frames that the filter has read but not applied (no I/O).

Detection is exact: the filter's cursor has passed the stream entry of an acknowledged frame, and yet
the frame is not applied. Then an earlier frame is missing. A filter that is down or slow does not move its
cursor and is never taken for a stall.

A frame that no filter will ever accept stalls its window each time. After RESENDS resendings the frame is
``in_doubt``: the writer then looks for it among the entries rejected by the filter, and gives it up
only if it is there (``acquisition.outbox.frames.tombstone``). Frames not seen because of trouble in a filter, shard or
stream are never there.
"""

from __future__ import annotations

from acquisition.wire.stream_id import is_before

#: After the k-th go-back in a row without progress, 2**k - 2 readings are skipped, at most this many.
_MOST_PATIENCE = 31
#: Vain resendings of a frame that the filter has read, before the probe asks why it is not applied.
RESENDS = 2


class Stall:
    """State of the oldest unapplied frame of a window.

    ``suspect`` is the sequence number of the frame that was sent again because it is not applied, 0 if
    there is none, and ``suspect_id`` its newest stream id, b"" until the shard has acknowledged it.
    """

    __slots__ = ("_check", "_check_id", "_patience", "_resent", "in_doubt", "refused", "suspect", "suspect_id")

    def __init__(self) -> None:
        self.suspect = 0
        self.suspect_id = b""
        self.refused = ""  # why the filter rejected it, if that may pass
        self.in_doubt = False  # it may never be applied: nothing is sent again before that is known
        self._resent = self._patience = self._check = 0
        self._check_id = b""

    def forget_entries(self) -> None:
        """The window went back: earlier acknowledgements no longer prove anything."""
        self._check_id = self.suspect_id = b""
        self.in_doubt = False

    def end(self) -> None:
        """More was applied than before, or the frame in doubt was given up."""
        self._resent = self._patience = 0
        self.refused = ""
        self.in_doubt = False

    def learn(self, reason: str) -> None:
        """The filter has rejected the suspect for a ``reason`` that may pass; "": it has not."""
        self.refused = reason

    def acknowledge(self, entry_id: bytes) -> None:
        """The shard has stored the suspect as ``entry_id``."""
        self.suspect_id = entry_id

    def observe(self, applied: int, acked: int, acked_id: bytes, cursor: bytes, sequence: int) -> bool:
        """Process a reading of the filter: True if the window has to go back to ``sequence``, the first number
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
        """``sequence`` is sent again; each repetition in a row skips more readings before the next one."""
        self._resent += 1
        self._patience = min(2**self._resent - 2, _MOST_PATIENCE)
        self.suspect = sequence
