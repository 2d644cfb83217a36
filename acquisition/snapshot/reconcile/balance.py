"""Balance of one (host, resource set, epoch), from independent counts (pure).

::

    made = before + applied + lost + pending          in samples, at every moment

    made      the probe's count of samples made: its status record, or the newest applied frame,
              whichever is newer
    before    made before the first frame known to the filter's record
    applied   the filter's count of applied samples
    lost      the filter's count of samples the probe had given up when they were missed, and samples
              given up since by the probe that the filter has read past
    pending   made - what the probe had made with the applied frame: in the probe's ring, or in the stream

Status and position are read at different moments while data flow. No reading order is needed:
a probe's count in an epoch only grows with its sequence numbers, so every (sequence, made) in
any record is a point of one curve that never falls. A point off that curve
contradicts the rest, whenever it was read. And made = before + applied + lost must hold within
each position by itself, since there ``made`` is the probe's count and the others are the filter's.

Samples gone from the stream but still in the ring are pending, for they will be sent again;
``missing`` is their number. A host with a silent probe may have made more than is known.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct, structs

from acquisition.wire import position
from acquisition.wire.position import Position
from acquisition.wire.status import SetStatus
from acquisition.wire.stream_id import is_before

REPORTED = "reported"  #: the probe's own account is present and current
SILENT = "silent"  #: it is present, but too old: samples made since are unknown
ABSENT = "absent"  #: it is absent: ``made`` is what the filter knows, pending samples are unknown
DAMAGED = "damaged"  #: the value in its place is not a record
ENDED = "ended"  #: the probe stopped in order, and the filter has read everything it made
RENUMBERED = "renumbered"  #: it is of an earlier epoch than what the filter has read since: as if absent


class Counts(Struct, frozen=True, kw_only=True):
    """Counts of one account, or sums over many, in samples unless called frames.

    ``missing``, ``unsent`` are parts of ``pending``: read past by the filter without being applied,
    and not yet acknowledged by a shard. ``dropped`` and ``shed`` are the probe's own counts, since its
    start, of samples given up before they were known to be applied (its ring was full, or no filter could read
    the frame), and of samples not sent because more is made than the pipeline takes. ``gaps``
    counts gaps of unknown size (power cuts of the host, deleted rings).
    """

    made: int
    before: int
    applied: int
    invalid: int
    lost: int
    pending: int
    missing: int
    unsent: int
    dropped: int
    shed: int
    gaps: int
    frames: int
    resent_frames: int
    refused_frames: int
    duplicate_frames: int


class Account(Counts, frozen=True, kw_only=True):
    """One (host, resource set, epoch). ``wall``, ``interval`` are those of the newest applied samples; ``faults`` are
    contradictions between the counts, in words."""

    host: int
    host_name: str  #: "" while the probe's own account is absent
    resource_set: int
    report: str  #: REPORTED, SILENT, ABSENT, DAMAGED, ENDED, RENUMBERED
    report_age: float | None  #: seconds
    epoch: int
    lost_frames: int
    go_backs: int
    sheds: bool  #: its probe sheds frames now
    contested: bool  #: a second sender uses the name of its host now
    misnamed: bool  #: its table gives its host the name of another host
    wall: float
    interval: float
    faults: tuple[str, ...] = ()

    @property
    def difference(self) -> int:
        """Samples made minus those accounted for: above 0 samples that vanished uncounted, below 0 counted twice."""
        return self.made - self.before - self.applied - self.lost - self.pending

    @property
    def duplicated(self) -> int:
        """Samples counted more often than they were made."""
        return max(0, -self.difference)

    @property
    def balanced(self) -> bool:
        """Whether the counts agree. Counted loss does not disturb the balance."""
        return not self.faults

    @property
    def known(self) -> bool:
        """Whether the number of samples made is known, and so the pending ones."""
        return self.report in (REPORTED, ENDED)


class Source(NamedTuple):
    """Host of an account, and knowledge of the probe's status record."""

    host: int
    host_name: str
    resource_set: int
    report: str
    report_age: float | None


#: A point of the curve: description, sequence number, samples made with it and all before it.
_Point = tuple[str, int, int]


def balance(source: Source, sent: SetStatus | None, done: Position | None, cursor: bytes) -> Account:
    """Account of one resource set. ``cursor`` was read before ``done``, or with it.

    Of two epochs the newer is the one seen later in the stream: if the filter has read past
    all of the status, its own; else the status's, of which nothing was applied yet.
    """
    gaps = done.gaps if done is not None else 0
    contested = done is not None and bool(done.flags & position.CONTESTED)
    if contested and sent is not None and done is not None and done.epoch != sent.epoch:
        sent, source = None, source._replace(report=ABSENT)  # it is that of the other sender
    if sent is not None and done is not None and done.epoch != sent.epoch:
        if _has_passed(cursor, sent):
            sent, source = None, source._replace(report=RENUMBERED)
        else:
            done = None
    known = done or _unknown(sent)
    made = max(known.made, sent.made) if sent is not None else known.made
    given_up = 0 if sent is None else _given_up(sent, known, cursor)
    lost_before = 0 if sent is None else _lost_before(sent, known)
    outstanding = max(0, made - known.made)
    if known.flags & position.ENDED and not outstanding:
        source = source._replace(report=ENDED)
    account = Account(
        **source._asdict(),
        epoch=known.epoch,
        made=made,
        before=known.before - lost_before,
        applied=known.applied,
        invalid=known.invalid,
        lost=known.lost + given_up + lost_before,
        pending=outstanding - given_up,
        missing=0 if sent is None else _missing(sent, known, cursor),
        unsent=0 if sent is None else max(0, min(sent.made - sent.sent_samples, outstanding - given_up)),
        dropped=0 if sent is None else sent.dropped_samples,
        shed=0 if sent is None else sent.shed_samples,
        gaps=gaps,
        frames=known.frames,
        lost_frames=known.lost_frames,
        refused_frames=known.refused,
        duplicate_frames=known.duplicates,
        resent_frames=0 if sent is None else sent.resent_frames,
        go_backs=0 if sent is None else sent.go_backs,
        sheds=bool(known.flags & position.SHEDS),
        contested=contested,
        misnamed=bool(known.flags & position.MISNAMED),
        wall=known.wall,
        interval=known.interval,
    )
    faults = (*_impossible(known), *_uncounted(account), *_off_the_curve(sent, known))
    return structs.replace(account, faults=faults)


def _unknown(sent: SetStatus | None) -> Position:
    """Stand-in for a missing position. If the probe has read one, samples no longer in its ring were applied
    before (or dropped: ``_lost_before``); the filter's counts of them are gone, which is no loss of samples."""
    if sent is None:
        return Position(0, 0, 0, 0.0, 0.0)
    if not sent.applied or sent.floor_samples < 0:
        return Position(sent.epoch, 0, 0, 0.0, 0.0)
    gone = sent.floor_samples
    return Position(sent.epoch, sent.floor - 1, 0, 0.0, 0.0, before=gone, made=gone)


def _given_up(sent: SetStatus, known: Position, cursor: bytes) -> int:
    """Samples neither in the ring nor in the stream and unknown to the filter.

    Samples dropped by the probe had been sent by then, or never will be. So none of them can arrive any more when
    the filter has read past the newest acknowledged entry and no older frame is on its way unacknowledged.
    """
    first_missing = sent.floor if sent.next < 0 else min(sent.floor, sent.next)
    if sent.sent < first_missing - 1 or not _has_passed(cursor, sent):
        return 0
    return _adrift(sent, known)


def _adrift(sent: SetStatus, known: Position) -> int:
    """Samples no longer in the ring and not applied by the filter: in the stream, or nowhere."""
    return max(0, sent.floor_samples - known.made)


def _lost_before(sent: SetStatus, known: Position) -> int:
    """The part of ``before`` that the ring gave up without knowing it applied: a filter that learns of an
    epoch late (its shard was down for longer than the ring holds) cannot distinguish it from applied samples.
    An upper bound: samples applied and dropped within one reading of the positions count as lost here."""
    on_its_way = max(0, sent.made - known.made)
    return max(0, min(known.before, sent.dropped_samples + sent.shed_samples - known.lost - on_its_way))


def _missing(sent: SetStatus, known: Position, cursor: bytes) -> int:
    """Samples that the filter has read past without applying them, and that are still in the ring."""
    if not _has_passed(cursor, sent):
        return 0
    return max(0, sent.sent_samples - max(known.made, sent.floor_samples))


def _has_passed(cursor: bytes, sent: SetStatus) -> bool:
    return bool(sent.sent_id) and not is_before(cursor, sent.sent_id.encode())


def _impossible(known: Position) -> list[str]:
    found = []
    if known.invalid > known.applied:
        found.append(f"{known.invalid} of {known.applied} applied samples are reported invalid")
    if max(known.frames, known.lost_frames) > known.sequence:
        found.append(f"{known.frames} frames applied, {known.lost_frames} lost of {known.sequence} in the epoch")
    return found


def _uncounted(account: Account) -> list[str]:
    difference = account.difference
    if not difference:
        return []
    verdict = "are unaccounted for" if difference > 0 else "are counted more than once"
    return [
        f"{abs(difference)} samples {verdict}: made {account.made}, before {account.before}, "
        f"applied {account.applied}, lost {account.lost}, pending {account.pending}"
    ]


def _off_the_curve(sent: SetStatus | None, known: Position) -> list[str]:
    """Pairs of counts that no probe can have had one after the other."""
    points: list[_Point] = [("the start of the epoch", 0, 0), ("the newest applied frame", known.sequence, known.made)]
    if sent is not None:
        points += [
            ("the newest frame in the probe's status", sent.frames, sent.made),
            ("the newest acknowledged frame in the probe's status", sent.sent, sent.sent_samples),
        ]
        if sent.floor_samples >= 0:
            points.append(("frames no longer in the probe's ring", sent.floor - 1, sent.floor_samples))
    points.sort(key=lambda point: point[1:])
    return [
        f"{later[0]} (number {later[1]}, {later[2]} samples made) contradicts"
        f" {earlier[0]} (number {earlier[1]}, {earlier[2]} samples made)"
        for earlier, later in pairwise(points)
        if later[2] < earlier[2] or (later[1] == earlier[1] and later[2] != earlier[2])
    ]
