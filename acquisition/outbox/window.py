"""The send window of one resource set: the go-back rule, without any input or output.

Go-back-N in the sense of RFC 3366, section 2: frames are numbered, sent in order and
without waiting, and after any doubt sent again from the oldest one that is not confirmed.
Confirmed means *applied by the filter*, not acknowledged by the shard: a shard may come
back empty, or as an older replica, after it acknowledged.

::

    dropped by the ring | held, applied | sent, acknowledged | in flight | not sent |
                        floor           applied                         next       last

A stall is found exactly: the filter's cursor has passed the stream entry of an
acknowledged frame, and yet the frame is not applied. Then something before it is missing.
A filter that is down or slow does not move its cursor and is never taken for a stall.

A frame that no filter will ever take stalls the window each time. After RESENDS resendings the window is
``in_doubt``: the writer then looks for the frame among the entries that the filter has put aside, and
gives it up only when it is there (``acquisition.outbox.void``). What a filter, shard or stream
in trouble has not seen is never there.
"""

from __future__ import annotations

from acquisition.wire.position import WANT_TABLE, Position

#: After the k-th go-back in a row without progress, 2**k - 2 readings are skipped, at most this many.
_MOST_PATIENCE = 31
#: Resendings in vain of a frame that the filter has read, before the probe asks why it is not applied.
RESENDS = 2


class SendWindow:
    """Numbers of one resource set; sequences start at 1, counts are samples unless they say frames.

    ``floor`` is the oldest sequence held, ``last + 1`` when none is; ``next`` the next to send.
    """

    __slots__ = (
        "acked", "acked_id", "acked_made", "applied", "check", "check_id", "confirmed", "dropped_frames",
        "dropped_samples", "epoch", "floor", "floor_made", "go_backs", "highest", "in_doubt", "last", "made", "next",
        "patience", "present", "recovered", "resent", "resource_set", "restamp", "shed_frames", "shed_samples",
        "stalls", "suspect", "suspect_id", "synchronized", "table", "wants_table",
    )  # fmt: skip

    def __init__(self, resource_set: int, epoch: int, last: int = 0, made: int = 0) -> None:
        self.resource_set = resource_set
        self.dropped_frames = self.dropped_samples = self.resent = self.go_backs = 0
        self.shed_frames = self.shed_samples = 0
        self.restart(epoch, last, made)

    def restart(self, epoch: int, last: int = 0, made: int = 0) -> None:
        """Number anew in another epoch, or go on after ``last`` in a recovered one."""
        self.epoch = epoch
        self.last = self.recovered = last
        self.made = made
        self.floor = self.next = last + 1
        self.floor_made = made  # samples made before the frame at floor, for the books; -1: unknown
        self.highest = last  # the highest sequence ever sent: below it, sending is sending again
        self.acked = self.acked_made = 0
        self.acked_id = b""
        self.applied = 0
        self.confirmed = 0  # the highest sequence ever known as applied: what a shard forgot was not lost by us
        self.present = self.synchronized = False
        self.check = 0
        self.check_id = b""
        self.restamp = 0
        self.stalls = self.patience = 0
        self.suspect = 0  # the frame that was sent again because it is not applied; its newest stream id
        self.suspect_id = b""
        self.in_doubt = False  # it will never be, perhaps: nothing is sent again before that is known
        self.table = 0  # sequence of the newest complete table
        self.wants_table = True

    def go_back(self, sequence: int) -> None:
        """Send again from ``sequence`` on, or from the floor when that is no longer held."""
        target = max(self.floor, sequence)
        self.go_backs += target < self.next
        self.next = target
        self.restamp = self.last  # what was encoded until now carries an old floor
        self.acked_id = self.check_id = self.suspect_id = b""
        self.in_doubt = False

    def is_ahead(self, position: Position | None) -> bool:
        """Whether the filter has applied numbers that this probe does not know of: the end of
        its ring was lost, so these numbers must not be given a second time."""
        if position is None or position.epoch != self.epoch:
            return False
        return position.sequence > (self.last if self.synchronized else self.recovered)

    def synchronize(self, position: Position | None) -> None:
        """Go on after a new connection: from applied + 1, or from the floor when that is unknown."""
        if position is None or position.epoch != self.epoch:
            self._lost_position()
        else:
            self._go_on(position)
            self.go_back(position.sequence + 1)
        self.synchronized = True

    def observe(self, position: Position | None, cursor: bytes) -> bool:
        """A reading between sends; ``cursor`` was read before ``position``. True: the window went back."""
        if position is None or position.epoch != self.epoch:
            if self.present:
                self._lost_position()
                return True
            return self._stalled(cursor) and self._retry(self.floor)
        if position.sequence < self.applied:
            self._go_on(position)
            self.go_back(position.sequence + 1)
            return True
        if position.sequence > self.applied or not self.present:
            self.stalls = self.patience = 0
            self.in_doubt = False
        self._go_on(position)
        return self._stalled(cursor) and self._retry(position.sequence + 1)

    def _lost_position(self) -> None:
        self.present, self.applied = False, 0
        self.go_back(self.floor)
        if self.table < self.next:  # else the table is sent again with the frames
            self.wants_table = True

    def _go_on(self, position: Position) -> None:
        went_back = position.sequence < self.applied
        self.present, self.applied = True, position.sequence
        self.confirmed = max(self.confirmed, position.sequence)
        if self.table <= position.sequence or self.table < self.floor:  # no table is on its way
            self.wants_table = self.wants_table or went_back or bool(position.flags & WANT_TABLE)

    def _stalled(self, cursor: bytes) -> bool:
        """Whether the filter has read past an acknowledged frame without applying it."""
        if not self.check_id or self.applied >= self.check:
            self.check, self.check_id = self.acked, self.acked_id
        return bool(self.check_id) and self.applied < self.check and not is_before(cursor, self.check_id)

    def _retry(self, sequence: int) -> bool:
        if self.patience:
            self.patience -= 1
            return False
        if self.stalls >= RESENDS and self.suspect_id and self.suspect == max(self.floor, sequence):
            self.in_doubt = True
            return False
        self.resend(sequence)
        return True

    def resend(self, sequence: int) -> None:
        """Go back to the frame that is not applied; the more often in a row, the more readings pass then."""
        self.stalls += 1
        self.patience = min(2**self.stalls - 2, _MOST_PATIENCE)
        self.go_back(sequence)
        self.suspect = self.next


def is_before(left: bytes, right: bytes) -> bool:
    """Whether stream id ``left`` (``MS-SEQ``; anything else is before everything) is before ``right``."""
    return stream_id(left) < stream_id(right)


def stream_id(text: bytes) -> tuple[int, int]:
    """The two numbers of ``MS-SEQ``; anything else is before everything."""
    try:
        milliseconds, _, number = text.partition(b"-")
        return int(milliseconds), int(number)
    except ValueError:
        return -1, -1
