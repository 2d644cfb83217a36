"""Sequence rule: frames apply in order, each once, with losses counted (pure).

Applied + 1 is applied; older frames are dropped; newer ones are refused without advancing, until the probe
reports by its floor that it no longer holds the missing ones, or by a tombstone that it has given one
up: only then are they lost, unless the probe had read that they were applied (HINT_APPLIED): then the shards have
forgotten that, and they count as made ``before``.

Two machines may have one host name (cloned images, "localhost"). Each has its own epoch, drawn from its own clock, so
an earlier epoch that has new frames again has a sender of its own: the elder. It is continued, with
CONTESTED in its position as long as both send; frames of the younger are refused. A machine
cloned while running has the epoch of the other: a different frame with the last applied number reveals it, and
its samples are marked until one of the two starts an epoch (``SendWindow.is_doubled``).
"""

from __future__ import annotations

import ctypes

from acquisition.model.codes import CODE_MASK, VALID
from acquisition.model.codes import CONTESTED as CONTESTED_CODE
from acquisition.wire import position as wire
from acquisition.wire.frame import (
    HINT_APPLIED,
    HINT_SHEDS,
    KIND_END,
    KIND_SAMPLES,
    KIND_TOMBSTONE,
    MOST_COUNTED,
    Frame,
)
from acquisition.wire.position import CONTESTED, ENDED, MISNAMED, MOST_GAPS, SHEDS, WANT_TABLE, Position

APPLY = 0
DUPLICATE = 1
REFUSE = 2


_CONTEST = 30  #: consecutive frames of one sender after which the other one is gone


class Track(ctypes.LittleEndianStructure):
    """Progress of one (host, resource set): its memory is its position record (acquisition.wire.position), so that
    ``bytes`` of it encode it, and the native step counts in it (filters/worker/step/next_frame.h)."""

    _pack_ = 1
    _fields_ = (
        ("version", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("gaps", ctypes.c_uint16),
        ("interval", ctypes.c_float),
        ("epoch", ctypes.c_uint64),
        ("sequence", ctypes.c_uint64),
        ("tick", ctypes.c_int64),
        ("wall", ctypes.c_double),
        ("before", ctypes.c_uint64),
        ("applied", ctypes.c_uint64),
        ("invalid", ctypes.c_uint64),
        ("lost", ctypes.c_uint64),
        ("frames", ctypes.c_uint64),
        ("lost_frames", ctypes.c_uint64),
        ("duplicates", ctypes.c_uint64),
        ("refused", ctypes.c_uint64),
        ("made", ctypes.c_uint64),
        ("lost_tick", ctypes.c_int64),
    )
    flags: int
    gaps: int
    interval: float
    epoch: int
    sequence: int
    tick: int
    wall: float
    before: int
    applied: int
    invalid: int
    lost: int
    frames: int
    lost_frames: int
    duplicates: int
    refused: int
    made: int
    lost_tick: int

    def __init__(self) -> None:
        super().__init__(version=wire.VERSION)
        self.contested = 0  #: number of its next frames that are marked
        self._former: Position | None = None  #: of the previous epoch, until its sender cannot exist any more
        self._younger: Position | None = None  #: of the second sender when the first one returned
        self._rivals = 0  #: frames of another sender since the newest applied one

    def restore(self, position: Position) -> None:
        """Continue from a record."""
        ctypes.memmove(ctypes.addressof(self), wire.encode(position), ctypes.sizeof(self))
        self.flags = position.flags & (WANT_TABLE | SHEDS | ENDED | MISNAMED)
        self._mark(_CONTEST if position.flags & CONTESTED else 0)

    def position(self) -> Position:
        """The current record."""
        return Position._make(getattr(self, name) for name in Position._fields)

    def _mark(self, frames: int) -> None:
        """Mark the next ``frames`` frames as sent by one of two senders."""
        self.contested = frames
        self.flags = self.flags & ~CONTESTED | (CONTESTED if frames else 0)

    def judge(self, frame: Frame) -> int:
        """Decide on a frame, and count it; a frame to APPLY is counted by ``apply``."""
        if frame.epoch != self.epoch:
            return self._contest(frame)
        if frame.sequence == self.sequence + 1:
            if frame.kind == KIND_TOMBSTONE:
                self._lose(1, frame)
            return APPLY
        if frame.sequence <= self.sequence:
            self.duplicates += 1
            if frame.sequence == self.sequence and frame.kind == KIND_SAMPLES and frame.wall != self.wall:
                self._mark(_CONTEST)  # not a resent frame
            return DUPLICATE
        if frame.sequence > frame.floor:  # the missing frames, or those after them, will be resent
            self.refused += 1
            return REFUSE
        self._lose(frame.floor - self.sequence - 1 + (frame.kind == KIND_TOMBSTONE), frame)
        return APPLY

    def _lose(self, frames: int, found: Frame) -> None:
        """Count the frames missing before the frame that reveals it: as lost, unless a filter had applied them before
        the shards lost their memory."""
        lost = max(0, found.made - self.made)  # a sender with a decreased count has no known loss
        if found.hints & HINT_APPLIED and found.kind != KIND_TOMBSTONE:
            self.before = min(self.before + lost, MOST_COUNTED)
            return
        self.lost_frames += frames
        self.lost = min(self.lost + lost, MOST_COUNTED)  # a count that leaps back and forth proves nothing
        self.lost_tick = found.tick

    def _contest(self, frame: Frame) -> int:
        """Handle a frame of another epoch: a new one begins, unless it is from a second sender."""
        former = self._former
        if self.contested:
            self._rivals += 1
            self._mark(0 if self._rivals > _CONTEST else _CONTEST)  # 0: no one is left to contest it
            self.refused += 1
            return REFUSE
        if former is not None and frame.epoch == former.epoch and not self.flags & ENDED:
            if frame.sequence <= former.sequence:  # possibly in transit when the new epoch began
                self.refused += 1
                return REFUSE
            self._younger = self.position()
            self.restore(former)  # its sender still exists
            self._former, self._rivals = None, 0
            self._mark(_CONTEST)
            return self.judge(frame)
        held = self.position()
        if self._younger is not None and frame.epoch == self._younger.epoch:  # its applied frames stay applied
            self.restore(self._younger._replace(gaps=self._gaps_after()))
            self._former, self._younger = held, None
            return self.judge(frame)
        verdict = self._begin(frame)
        if verdict == APPLY:
            self._former = held if held.epoch else None
        return verdict

    def _begin(self, frame: Frame) -> int:
        """Start a new epoch: counting starts at the oldest frame still held by the probe.

        Epochs are compared for equality only: an order would depend on a clock.
        What the probe still held of the previous epoch is unknown: a gap of unknown size, unless
        the probe had reported that nothing was left.
        """
        if frame.sequence > frame.floor:
            self.refused += 1
            return REFUSE
        self.gaps = self._gaps_after()
        self.epoch = frame.epoch
        self.before = self.made = frame.made if frame.sequence > 1 else 0
        self.applied = self.invalid = self.lost = self.frames = self.lost_frames = 0
        self.duplicates = self.refused = self.lost_tick = 0
        if frame.kind == KIND_TOMBSTONE:
            self._lose(1, frame)
        return APPLY

    def _gaps_after(self) -> int:
        """Number of gaps after leaving this epoch."""
        return min(self.gaps + bool(self.epoch and not self.flags & ENDED), MOST_GAPS)

    def want_table(self, wanted: bool) -> None:
        """Request the probe's names with the next position, or stop requesting them."""
        self.flags = self.flags & ~WANT_TABLE | (WANT_TABLE if wanted else 0)

    def name(self, own: bool) -> None:
        """Record whether the host of this set has the name in its table."""
        self.flags = self.flags & ~MISNAMED | (0 if own else MISNAMED)

    def count_invalid(self, epoch: int, samples: int) -> None:
        """Count the samples of an applied frame of this epoch that failed a check."""
        if epoch == self.epoch:  # otherwise a newer epoch with its own counts began in the same read
            self.invalid += samples

    def apply(self, frame: Frame) -> None:
        """Count an applied frame; its invalid samples follow later, see ``count_invalid``.

        Tick and time are those of the newest samples: a table frame leaves them unchanged.
        """
        samples = frame.entities * frame.metrics
        kind = frame.kind
        if self.contested:
            self._mark(self.contested - 1)
            self._rivals = 0
        self.sequence = frame.sequence
        self.frames += 1
        flags = self.flags & ~ENDED | (ENDED if kind == KIND_END else 0)
        if kind == KIND_SAMPLES:
            self.tick = frame.tick
            self.wall = frame.wall
            self.interval = frame.interval
            flags = flags & ~SHEDS | (SHEDS if frame.hints & HINT_SHEDS else 0)
        self.flags = flags
        self.applied += samples
        self.made = frame.made + samples

    def forgo(self, frame: Frame) -> None:
        """Count a frame to APPLY as lost: it is rejected for its size, and would be again if resent."""
        samples = frame.entities * frame.metrics
        self.lost_frames += 1
        self.lost = min(self.lost + samples, MOST_COUNTED)
        self.lost_tick = frame.tick
        self.sequence, self.made = frame.sequence, frame.made + samples


def contested(frame: Frame) -> Frame:
    """The same samples, none of them VALID: they are from one of two machines."""
    codes = frame.codes or bytes(frame.samples)
    return frame._replace(codes=codes.translate(_MARKS))


_MARKS = bytes(CONTESTED_CODE if code & CODE_MASK == VALID else code for code in range(256))
