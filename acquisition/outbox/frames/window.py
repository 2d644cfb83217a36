"""Send window of one resource set: the go-back rule (no I/O).

Go-back-N in the sense of RFC 3366, section 2: frames are numbered, sent in order and
without waiting, and after any doubt sent again from the oldest unconfirmed one.
Confirmed means *applied by the filter*, not acknowledged by the shard: a shard may come
back empty, or as an older replica, after it acknowledged.

::

    dropped by the ring | held, applied | sent, acknowledged | in flight | not sent |
                        floor           applied                         next       last

A filter that has read past a frame without applying it stalls the window (``acquisition.outbox.frames.stall``).
"""

from __future__ import annotations

from collections import deque

from acquisition.outbox.frames.stall import Stall
from acquisition.wire.position import CONTESTED, WANT_TABLE, Position
from acquisition.wire.status import SetStatus


class Counts:
    """Frames and samples of one send window; they go on when its numbers restart."""

    __slots__ = ("dropped_frames", "dropped_samples", "go_backs", "resent", "shed_frames", "shed_samples")

    def __init__(self) -> None:
        self.resent = self.go_backs = 0
        self.dropped_frames = self.dropped_samples = 0
        self.shed_frames = self.shed_samples = 0

    def drop(self, samples: int) -> None:
        """Count a frame given up before it was known to be applied."""
        self.dropped_frames += 1
        self.dropped_samples += samples

    def shed(self, samples: int) -> None:
        """Count a frame given up before it was sent: more is made than the pipeline takes."""
        self.shed_frames += 1
        self.shed_samples += samples

    def resend(self) -> None:
        """Count a frame sent once more."""
        self.resent += 1

    def go_back(self) -> None:
        """Count a return to frames already sent."""
        self.go_backs += 1


_MOST = 1024  #: frames; if more wait for a conclusive reading, the oldest count as dropped


class Unsettled:
    """Frames that the ring gave up after the shard had stored them, by number: the next reading shows whether they were
    applied. Lost ones are counted in ``counts``.

    A ring that holds ten seconds of frames, of a probe that reads the positions every ten seconds, gives up frames that
    the filter applied long ago. They are not lost, and not counted as lost."""

    __slots__ = ("_counts", "_frames")

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._frames: deque[tuple[int, int]] = deque()

    def add(self, sequence: int, samples: int) -> None:
        """Frame ``sequence`` has left the ring; the shard has stored it since the window last went back."""
        if len(self._frames) == _MOST:
            self._counts.drop(self._frames.popleft()[1])
        self._frames.append((sequence, samples))

    def settle(self, applied: int) -> None:
        """Everything up to ``applied`` was applied; the rest may still be."""
        frames = self._frames
        while frames and frames[0][0] <= applied:
            frames.popleft()

    def give_up(self) -> None:
        """Entries in the stream no longer count: frames not applied until now are lost."""
        while self._frames:
            self._counts.drop(self._frames.popleft()[1])


class SendWindow:
    """Numbers of one resource set; sequences start at 1, counts are samples unless called frames.

    ``last`` is the newest sequence number, ``made`` the samples up to it; ``floor`` the oldest held
    number, ``last + 1`` if there is none, ``floor_made`` the samples made before it, -1 if that is unknown.
    ``next`` is the next number to send and ``highest`` the highest one ever sent. ``acked`` is the newest
    number acknowledged by the shard since the last go-back, ``acked_made`` the samples up to it and
    ``acked_id`` its stream id. ``applied`` is the filter's position at the last reading, 0 unless
    ``has_position``; ``confirmed`` the highest position ever read: what a shard forgot was not lost by us.
    ``recovered`` is the newest number of an earlier process. While ``synchronized`` is false, the place to
    continue is not known. ``wants_table``: the filter may lack the names. ``contested``: another sender
    uses the name of this host; the filter takes frames only from the elder, and the younger resends none.
    """

    __slots__ = (
        "_anothers", "_restamp", "_table", "_unsettled", "acked", "acked_id", "acked_made", "applied", "confirmed",
        "contested", "counts", "epoch", "floor", "floor_made", "has_position", "highest", "last", "made", "next",
        "recovered", "resource_set", "stall", "synchronized", "wants_table",
    )  # fmt: skip

    def __init__(self, resource_set: int, epoch: int, last: int = 0, made: int = 0) -> None:
        self.resource_set = resource_set
        self.counts = Counts()
        self._unsettled = Unsettled(self.counts)
        self.restart(epoch, last, made)

    def restart(self, epoch: int, last: int = 0, made: int = 0) -> None:
        """Restart the numbering in another epoch, or continue after ``last`` in a recovered one."""
        self.epoch = epoch
        self.last = self.recovered = self.highest = last
        self.made = self.floor_made = made
        self.floor = self.next = last + 1
        self.acked = self.acked_made = self.applied = self.confirmed = 0
        self.acked_id = b""
        self.has_position = self.synchronized = self.contested = False
        self.stall = Stall()
        self._unsettled.give_up()
        self._anothers = 0  # readings in a row
        self._restamp = 0
        self._table = 0  # sequence of the newest complete table
        self.wants_table = True

    def recover(self, sequence: int, made: int, is_tombstone: bool) -> None:
        """Hold a frame of an earlier process, the next one in order: ``made`` counts the samples up to it."""
        if is_tombstone and self.floor == sequence:  # its ``made`` includes the samples it stands for
            self.floor_made = -1
        self.last = self.recovered = self.highest = sequence
        self.made = made

    def number(self, samples: int) -> int:
        """Assign the next number to a frame of ``samples`` samples; returns it."""
        self.last += 1
        self.made += samples
        return self.last

    def note_table(self, sequence: int) -> None:
        """Frame ``sequence`` is a complete table."""
        self._table = sequence
        self.wants_table = False

    def drop(self, sequence: int, made: int, samples: int, shed: bool) -> None:
        """The oldest frame is no longer held; ``made`` counts the samples up to it."""
        self.floor = sequence + 1
        self.floor_made = made
        # frames sent by an earlier process may have been applied long ago, as far as is known yet
        if sequence > (self.confirmed or self.recovered) and not shed:
            self.give_up(sequence, samples)

    def give_up(self, sequence: int, samples: int) -> None:
        """A frame no longer held was not known to be applied. If the shard has stored it, the next
        reading decides (``Unsettled``); otherwise it is counted as dropped."""
        if self.acked_id and sequence <= self.acked:
            self._unsettled.add(sequence, samples)
        else:
            self.counts.drop(samples)

    def drop_held(self) -> None:
        """No frame is held any more."""
        self.floor = self.last + 1
        self.floor_made = self.made

    def send(self, sequence: int) -> int:
        """Mark frame ``sequence`` as sent; returns the floor it has to carry, 0 if the encoded
        one is right."""
        floor = 0
        if sequence > self.next:  # the next frame was dropped by the ring, or shed
            self._restamp = self.last
            floor = sequence
        elif sequence <= self._restamp:
            floor = self.floor
        if sequence <= self.highest:
            self.counts.resend()
        else:
            self.highest = sequence
        self.next = sequence + 1
        return floor

    def acknowledge(self, sequence: int, made: int, entry_id: bytes) -> None:
        """The shard has stored frame ``sequence`` as stream entry ``entry_id``."""
        self.acked = sequence
        self.acked_made = made
        self.acked_id = entry_id
        if sequence == self.stall.suspect:
            self.stall.acknowledge(entry_id)

    def go_back(self, sequence: int) -> None:
        """Send again from ``sequence`` on, or from the floor if that is no longer held."""
        self._unsettled.give_up()
        target = max(self.floor, sequence)
        if target < self.next:
            self.counts.go_back()
        self.next = target
        self._restamp = self.last  # frames encoded until now carry an old floor
        self.acked_id = b""
        self.stall.forget_entries()

    def is_ahead(self, position: Position | None) -> bool:
        """Whether the filter has applied numbers unknown to this probe: the end of its ring was lost,
        or a clone of its machine is ahead; so these numbers must not be used a second time."""
        if position is None or position.epoch != self.epoch:
            return False
        return position.sequence > (self.last if self.synchronized else self.recovered)

    def is_doubled(self, is_anothers: bool | None) -> bool:
        """Whether a clone of the running machine also numbers in this epoch: twice in a row, the applied frame
        was not from this process (``acquisition.outbox.frames.numbering.is_anothers``; None: unknown). Of two machines
        that ask at the same time only one gets this answer: the other continues unchanged."""
        if is_anothers is not None:
            self._anothers = self._anothers + 1 if is_anothers else 0
        return self._anothers > 1

    def synchronize(self, position: Position | None) -> None:
        """Continue after a new connection: from applied + 1, or from the floor if that is unknown. A window
        of a new epoch needs no reading: it is unknown to all filters."""
        if self._is_the_younger(position):
            self.next = max(self.next, self.last)  # only the newest, to show that there are two
        elif position is None or position.epoch != self.epoch:
            self._lose_position()
        else:
            self._go_on(position)
            self.go_back(position.sequence + 1)
        self.synchronized = True

    def observe(self, position: Position | None, cursor: bytes) -> bool:
        """A reading between sends; ``cursor`` was read before ``position``. True: the window went back."""
        if self._is_the_younger(position):
            return False
        if position is None or position.epoch != self.epoch:
            if self.has_position:
                self._lose_position()
                return True
            return self._retry_stalled(self.floor, cursor)
        if position.sequence < self.applied:
            self._go_on(position)
            self.go_back(position.sequence + 1)
            return True
        if position.sequence > self.applied or not self.has_position:
            self.stall.end()
        self._go_on(position)
        return self._retry_stalled(position.sequence + 1, cursor)

    def resend(self, sequence: int) -> None:
        """Go back to the frame that is not applied."""
        self.go_back(sequence)
        self.stall.resend(self.next)

    def send_tombstone(self) -> None:
        """Go back to the frame in doubt, now replaced by a tombstone."""
        self.stall.end()
        self.go_back(self.stall.suspect)

    def status(self) -> SetStatus:
        """Row of this resource set in the status record."""
        counts = self.counts
        return SetStatus(
            self.epoch,
            self.made,
            self.last,
            self.floor,
            self.acked,
            self.acked_id.decode("ascii", "replace"),
            self.acked_made,
            self.applied,
            counts.resent,
            counts.dropped_frames,
            counts.dropped_samples,
            counts.go_backs,
            self.floor_made,
            counts.shed_frames,
            counts.shed_samples,
            self.next,
        )

    def _is_the_younger(self, position: Position | None) -> bool:
        """Whether the filter follows another sender of this name, and knows of two."""
        self.contested = position is not None and bool(position.flags & CONTESTED)
        return self.contested and position is not None and position.epoch != self.epoch

    def _lose_position(self) -> None:
        self.has_position, self.applied = False, 0
        self.go_back(self.floor)
        if self._table < self.next:  # else the table is sent again with the frames
            self.wants_table = True

    def _go_on(self, position: Position) -> None:
        went_back = position.sequence < self.applied
        self.has_position, self.applied = True, position.sequence
        self.confirmed = max(self.confirmed, position.sequence)
        self._unsettled.settle(position.sequence)
        if self._table <= position.sequence or self._table < self.floor:  # no table is on its way
            self.wants_table = self.wants_table or went_back or bool(position.flags & WANT_TABLE)

    def _retry_stalled(self, sequence: int, cursor: bytes) -> bool:
        if self.stall.observe(self.applied, self.acked, self.acked_id, cursor, max(self.floor, sequence)):
            self.resend(sequence)
            return True
        return False
