"""What each commit of a partition has changed, for readers who ask many times a second.

``hosts:{tag}:changes`` is a stream of the newest commits, each an entry of these fields::

    before   the id of the commit before
    commit   its own id (``acquisition.wire.commit``)
    applied  MEMBER, 25 bytes, and its position record (``acquisition.wire.position``), one pair behind the other
    records  the new records of hosts' own figures (``acquisition.wire.host_records``); empty where there is none

It says nothing that the other keys do not say, and need not be there: filters write it while readers say that they
follow, in the transaction of the commit. Who has read everything up to one commit, and finds the newest one at the end
of an unbroken chain of entries from there on, has read everything. A commit that has no entry, or that takes members
away, breaks the chain: then everything is read again.

``tests/acquisition/wire/test_changes_wire.py`` holds golden bytes and a round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from acquisition.errors import FrameError
from acquisition.wire import host_records, keys, position

FOLLOWED = b"2"  #: the value of ``sought`` by which a reader says that it follows
KEPT = 32  #: entries; who is farther behind reads everything
MEMBER_SIZE = len(keys.member(0, 0))
_ROW = MEMBER_SIZE + position.POSITION.size
_NAMES = (b"before", b"commit", b"applied", b"records")


class Change(NamedTuple):
    """An entry: ``applied`` are pairs of member and position, joined, for ``pairs``; ``records`` the joined records of
    hosts (``acquisition.wire.host_records``), b"" where there is none."""

    before: bytes
    commit: bytes
    applied: bytes
    records: bytes


def encode(before: bytes, commit: bytes, applied: bytes, records: Sequence[bytes]) -> list[bytes]:
    """Names and values of an entry; ``applied`` are pairs of member and position, joined."""
    values = before, commit, applied, host_records.encode(records) if records else b""
    return [word for pair in zip(_NAMES, values, strict=True) for word in pair]


def decode(fields: Sequence[bytes]) -> Change:
    """The change in an entry, whose parts need not be sound. Raises FrameError when it is none."""
    if tuple(fields[::2]) != _NAMES or len(fields) != 2 * len(_NAMES):
        raise FrameError("payload", f"an entry of the fields {list(fields[::2])[:5]} is no change")
    return Change._make(fields[1::2])


def pairs(applied: bytes) -> tuple[list[bytes], list[bytes]]:
    """The members, and the position record of each, which need not be sound. Raises FrameError where they are none."""
    if len(applied) % _ROW:
        raise FrameError("shape", f"{len(applied)} bytes are no pairs of member and position")
    starts = range(0, len(applied), _ROW)
    members = [applied[at : at + MEMBER_SIZE] for at in starts]
    return members, [applied[at + MEMBER_SIZE : at + _ROW] for at in starts]
