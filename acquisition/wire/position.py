"""Progress of the filter: the commit of a partition, and positions in it.

The commit, the value of ``commit:{tag}``, is ``<id> <cursor> <rejected>[ <fair share>]``: the last write of its filter
worker, and its cursor at that time. Further words belong to a newer version, and readers ignore them.
``tests/acquisition/wire/test_commit.py`` contains golden bytes and a round trip.

The position is the progress of application, one fixed record per (host, resource set) in the hash ``applied:{tag}``.
The probe reads it to know where to continue; readers take the newest tick and the books from it.
Balance: made = before + applied + lost + pending, in samples. ``made`` is the probe's own count,
carried by the newest applied frame; the other three are the filter's. They come from two
counters and must agree in every single record (``acquisition.snapshot.reconcile.balance``).
There is one version so far. For the next, written by newer software, FrameError has its own reason: it is no damage,
and must not be overwritten.

``gaps`` counts losses that cannot be counted in samples: an epoch ends although its probe has not
continued it when the ring is gone (power cut of the host, ring deleted or damaged while no probe ran). Samples
in that ring that the filter had not applied are a gap of unknown size, never 0. An epoch that ENDED
leaves none.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from acquisition.errors import FrameError
from acquisition.wire.frame import MOST_COUNTED
from acquisition.wire.stream_id import is_possible

VERSION = 2
POSITION = struct.Struct("<BBHfQQqdQQQQQQQQQq")

#: The filter lacks names for this resource set: the probe sends its table again.
WANT_TABLE = 1
#: The newest applied frame states that its probe sheds others (``acquisition.outbox.shedding``).
SHEDS = 2
#: The probe stopped in order, and everything it made in this epoch is accounted for.
ENDED = 4
#: Two senders use the name of this host: the frames of the younger one are not applied, those of the elder are marked.
CONTESTED = 8
#: Its table gives its host a name that is not its own (``acquisition.model.identity.own_name``).
MISNAMED = 16
MOST_GAPS = 0xFFFF
MOST = 2 * MOST_COUNTED  #: upper bound of number and counts: counting could not continue from there
_INFINITY = float("inf")

_COMMIT = re.compile(rb"(\w*) (\d{1,20}-\d{1,20}) (\d{1,20})(?: (\d{1,20}))?(?: .*)?", re.DOTALL)
#: Pattern of Lua equivalent to ``id_of``: for scripts that run in a shard.
LUA_ID = "^[^ ]*"


class Position(NamedTuple):
    """Counts are of this epoch and grow monotonically; ``gaps`` is of all epochs."""

    epoch: int
    sequence: int  #: the newest applied frame
    tick: int  #: its tick
    wall: float  #: its sampling time, seconds since 1970
    interval: float
    flags: int = 0  #: WANT_TABLE, SHEDS, ENDED, CONTESTED, MISNAMED
    before: int = 0  #: samples made before the first frame known to this record, or applied and forgotten
    applied: int = 0  #: samples applied, valid or not
    invalid: int = 0  #: of these, samples that failed a check (acquisition.model.codes.IS_INVALID)
    lost: int = 0  #: samples no longer held by the probe when they were missed
    frames: int = 0  #: frames applied, tables included
    lost_frames: int = 0
    duplicates: int = 0  #: frames dropped because they had been applied already
    refused: int = 0  #: frames refused because an older one is missing
    made: int = 0  #: samples made by the probe up to the newest applied frame, according to that frame
    lost_tick: int = 0  #: tick of the first frame after the newest loss; 0: nothing was lost
    gaps: int = 0  #: gaps of unknown size: epochs, not ENDED, followed by another one (MOST_GAPS: or more)


def encode(position: Position) -> bytes:
    """Bytes of a position record (POSITION.size of them)."""
    epoch, sequence, tick, wall, interval, flags, *counts, gaps = position
    return POSITION.pack(VERSION, flags, gaps, interval, epoch, sequence, tick, wall, *counts)


def decode(data: bytes) -> Position:
    """Position in ``data``. Raises FrameError if it is invalid ("payload"), of the next version ("newer"), or
    counting cannot continue from it ("shape")."""
    if len(data) != POSITION.size or data[0] != VERSION:
        raise _unknown(data)
    (_, flags, gaps, interval, epoch, sequence, tick, wall, *counts) = POSITION.unpack(data)
    found = Position._make((epoch, sequence, tick, wall, interval, flags, *counts, gaps))
    if not (max(sequence, *counts[:-1]) < MOST and 0 <= interval < _INFINITY and -_INFINITY < wall < _INFINITY):
        raise FrameError("shape", f"invalid position: {found}")
    return found


def _unknown(data: bytes) -> FrameError:
    """Why bytes are not a position of this version."""
    if len(data) >= POSITION.size and data[0] == VERSION + 1:
        return FrameError("newer", f"position version {VERSION + 1} is not supported (supported: {VERSION})")
    return FrameError("payload", f"invalid position record of {len(data)} bytes")


class Commit(NamedTuple):
    """``id`` is fresh and random in every commit; ``cursor`` is the newest raw entry covered by it.

    ``rejected`` counts the entries rejected since the stream began. ``fair_share`` in
    samples/s is the limit above which probes shed (``filters.worker.loop.fair_share``); 0: none.
    """

    id: bytes
    cursor: bytes
    rejected: int
    fair_share: int = 0


def encode_commit(commit: Commit) -> bytes:
    """Bytes of a commit."""
    return b"%b %b %d" % commit[:3] + (b" %d" % commit.fair_share if commit.fair_share else b"")


def decode_commit(data: bytes) -> Commit:
    """Commit in ``data``. Raises FrameError if it is invalid."""
    found = _COMMIT.fullmatch(data)
    if found is None or not is_possible(found[2]) or max(int(found[3]), int(found[4] or 0)) >= MOST_COUNTED:
        raise FrameError("payload", f"invalid commit record {data[:80]!r}")
    return Commit(found[1], found[2], int(found[3]), int(found[4] or 0))


def id_of(data: bytes | None) -> bytes:
    """Id of a commit that need not be valid, b"" if absent."""
    return b"" if data is None else data.partition(b" ")[0]
