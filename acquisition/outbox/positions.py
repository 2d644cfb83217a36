"""Position reader: fetches cursor and applied positions, writes probe status.

All of it is one pipeline, every ``interval`` seconds, together with frames.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from acquisition.errors import FrameError
from acquisition.link.resp import pack
from acquisition.outbox.frames.numbering import is_anothers, renumber
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.frames.tombstone import HOPELESS, give_up, reason_of
from acquisition.outbox.frames.window import SendWindow
from acquisition.outbox.in_flight import Expected
from acquisition.wire import keys, position, status
from acquisition.wire.position import Position
from acquisition.wire.stream_id import is_before

_CURSOR: Expected = (None, 1, 0, 0)
APPLIED = 2
_APPLIED: Expected = (None, APPLIED, 0, 0)
STATUS = 3
_STATUS: Expected = (None, STATUS, 0, 0)
_REJECTED: Expected = (None, 4, 0, 0)
_STATUS_SHARE = 0.7  #: of an interval: readings may come a little early
_MOST_REJECTED = 100  #: entries looked at for one frame


class Positions:
    """``due`` is when to ask next; while ``synchronizing``, the place to continue is unknown; ``unreadable``
    counts invalid records."""

    def __init__(self, host: int, host_name: str, outbox: Outbox, interval: float) -> None:
        self.interval = interval
        self.due = self._status_due = 0.0
        self.synchronizing = True
        self.unreadable = 0
        self._host = host
        self._host_name = host_name
        self._outbox = outbox
        self._tag = ""
        self._status_key = ""
        self._asked: list[SendWindow] = []
        self.cursor = b""  #: the filter's, in the stream
        self.fair_share = 0  #: samples/s accepted from every host; 0: all
        self._reading = b""
        self._doubted: deque[SendWindow] = deque()

    def begin(self, tag: str) -> None:
        """A new connection: the positions are read before everything else."""
        self._tag = tag
        self._status_key = keys.status(tag, self._host)
        self._reading = b""
        self._doubted.clear()
        self.synchronizing = True
        self.due = self._status_due = 0.0

    def doubt(self) -> None:
        """The shard may have other data by now: the place to continue is unknown."""
        self.synchronizing = True

    def demand_status(self) -> None:
        """Write a status with the next reading, however soon it comes."""
        self._status_due = 0.0

    def hasten(self, moment: float) -> None:
        """Ask at ``moment`` at the latest."""
        self.due = min(self.due, moment)

    def include_new_sets(self) -> None:
        """Ask for a new resource set as well."""
        self._reading = b""

    def questions(
        self, now: float, rest: Callable[[], dict[str, Any]], written: bytes = b""
    ) -> tuple[bytes, list[Expected]]:
        """The commands, and the meaning of their replies. ``rest()`` returns the status fields beside the windows, and
        ``written`` are further ones (``wire.status.members``).

        Every reading writes a status, except for those of a catch-up, which are more frequent.

        The cursor is read first, so that every frame it has passed is in the positions,
        or is missing.
        """
        self.due = now + self.interval
        if not self._reading:
            self._asked = list(self._outbox.windows.values())
            self._reading = pack(("GET", keys.commit(self._tag)))
            if self._asked:
                members = [keys.member(self._host, window.resource_set) for window in self._asked]
                self._reading += pack(("HMGET", keys.applied(self._tag), *members))
        if not self._asked:
            self.synchronizing = False
        expected = [_CURSOR, _APPLIED] if self._asked else [_CURSOR]
        commands = self._reading + self._ask_why(expected)
        if now >= self._status_due or all(window.next > window.last for window in self._asked):
            self._status_due = now + _STATUS_SHARE * self.interval
            rows = {window.resource_set: window.status() for window in self._asked}
            said = {**rest(), "position_interval": self.interval}
            record = status.encode(self._host_name, time.time(), rows, said, written)
            commands += pack(("SET", self._status_key, record, "EX", str(status.EXPIRE_SECONDS)))
            expected.append(_STATUS)
        return commands, expected

    def _ask_why(self, expected: list[Expected]) -> bytes:
        """Search for the frames in doubt among the entries rejected by the filter since they arrived."""
        commands = b""
        for window in self._asked:
            if window.stall.in_doubt:
                name = keys.rejected(self._tag)
                commands += pack(("XRANGE", name, window.stall.suspect_id, "+", "COUNT", str(_MOST_REJECTED)))
                expected.append(_REJECTED)
                self._doubted.append(window)
        return commands

    def forgives(self, kind: int) -> bool:
        """Whether an error instead of this reply changes nothing: then nothing is given up."""
        return kind == _REJECTED[1]

    def take(self, kind: int, reply: Any) -> list[SendWindow] | None:
        """Process the reply to a question: the windows that have gone back, None if the reply makes no sense."""
        if kind == _CURSOR[1] and (reply is None or type(reply) is bytes):
            self._learn(reply)
            return []
        if kind == APPLIED and type(reply) is list and len(reply) == len(self._asked):
            return self._compare(reply)
        if kind == _REJECTED[1]:
            return self._decide(self._doubted.popleft(), reply)
        return [] if kind == STATUS else None

    def _learn(self, data: bytes | None) -> None:
        """Process the filter's cursor and its fair share."""
        before, self.cursor, self.fair_share = self.cursor, b"", 0
        if data is not None:
            try:
                found = position.decode_commit(data)
                if is_before(found.cursor, before):  # another stream than the one with our frames
                    self.synchronizing = True
                self.cursor, self.fair_share = found.cursor, found.fair_share
            except FrameError:
                self.unreadable += 1

    def _decide(self, window: SendWindow, entries: Any) -> list[SendWindow]:
        """Give up the frame in doubt if the filter will never accept it; send again in any case."""
        stall = window.stall
        if not stall.in_doubt:
            return []
        reason = reason_of(entries, stall.suspect_id)
        if reason in HOPELESS and give_up(self._outbox, window, stall.suspect, reason):
            window.send_tombstone()
        else:
            stall.learn(reason)
            window.resend(stall.suspect)
        return [window]

    def _compare(self, replies: list[bytes | None]) -> list[SendWindow]:
        went_back = []
        for window, data in zip(self._asked, replies, strict=True):
            applied = self._decode(data)
            doubled = window.is_doubled(is_anothers(self._outbox, window, applied))
            if applied is not None and (doubled or window.is_ahead(applied)):
                renumber(self._outbox, window, applied.sequence)
                went_back.append(window)
            elif self.synchronizing:
                window.synchronize(applied)
                went_back.append(window)
            elif window.observe(applied, self.cursor):
                went_back.append(window)
        self.synchronizing = False
        return went_back

    def _decode(self, data: bytes | None) -> Position | None:
        if data is None:
            return None
        try:
            return position.decode(data)
        except FrameError:
            self.unreadable += 1
            return None
