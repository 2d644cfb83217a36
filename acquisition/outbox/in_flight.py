"""Frames in flight to the shard, in ring order, matched with its replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from acquisition.outbox.catch_up import OLD, CatchUp
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.frames.tombstone import DAMAGED, give_up
from acquisition.outbox.frames.window import SendWindow
from acquisition.outbox.overload import Overload
from acquisition.wire import frame, keys

#: Frames sent and not yet acknowledged: bounds what one host can put before a shard at once.
_MOST_IN_FLIGHT = 1 << 18
_MOST_PER_SEND = 1 << 16

#: What a reply answers: (window, sequence, made, bytes) for a frame, else (None, kind, 0, 0);
#: (None, FRAME, 0, bytes) for a frame that was sent before its window went back.
Expected = tuple[SendWindow | None, int, int, int]
FRAME = 0
#: The shard answered more often than it was asked.
_SURPLUS: Expected = (None, -1, 0, 0)


class InFlight:
    """``expected`` is what has been asked and not answered, oldest first; others only look at it.

    Frames more than ``old`` seconds old wait for their turn (see ``acquisition.outbox.catch_up``)."""

    def __init__(self, outbox: Outbox, overload: Overload, old: float = OLD) -> None:
        self.expected: deque[Expected] = deque()
        self.bytes = 0  #: of the frames that are not confirmed yet
        self.catch_up = CatchUp()
        self._old = old
        self._outbox = outbox
        self._overload = overload
        self._index = outbox.first  # of the next frame to look at
        self._key = self._head = b""
        self._sign: Callable[[bytes], bytes] | None = None
        self._refused: tuple[SendWindow, int] | None = None  # the frame that was answered last, if with an error

    @property
    def is_waiting(self) -> bool:
        """Whether there are frames that were not looked at yet."""
        return self._index < self._outbox.end

    @property
    def may_go(self) -> bool:
        """Whether there are such frames, and none of them has to be held."""
        return self._index < self._outbox.end and not self._overload.state.hold

    def begin(self, tag: str) -> None:
        """A new connection: what was in flight is forgotten."""
        self._key = keys.raw(tag).encode()
        self._head = _head(self._key, self._sign is not None)
        self.expected.clear()
        self.bytes = 0
        self.catch_up.end()

    def sign_with(self, sign: Callable[[bytes], bytes] | None) -> None:
        """From the next frame on each gets the signature that ``sign`` makes of its bytes; None: no frame does."""
        self._sign = sign
        self._head = _head(self._key, sign is not None)
        for window in self._outbox.windows.values():
            window.stall.end()  # what was refused may be taken now: it is sent again soon

    def take(self, parts: list[bytes], now: float) -> None:
        """Add the commands of the next frames to ``parts``, as many as may be in flight; shed what is to be shed."""
        sign, before = self._sign, self.bytes
        outbox, head, expected = self._outbox, self._head, self.expected
        sheds = self._overload.state.share < 1.0
        hints = frame.HINT_SHEDS if sheds else 0
        index, end = max(self._index, outbox.first), outbox.end
        size = self.bytes - before  # of what is made already
        while index < end and size < _MOST_PER_SEND and self.bytes < _MOST_IN_FLIGHT:
            entry = outbox.entry(index)
            window, sequence = entry[0], entry[1]
            if window is not None and sequence >= window.next and not entry.shed:
                if sheds and sequence > window.highest and self._overload.sheds(entry, now):
                    outbox.shed(index)
                    index += 1
                    continue
                if self._waits(entry[6], now):
                    break
                data = outbox.read(index)
                floor = window.send(sequence)
                if floor or hints:
                    floor = floor or window.floor
                    applied = frame.HINT_APPLIED if floor <= window.confirmed + 1 else 0
                    data = self._stamped(index, data, floor, hints | applied)
                length = len(data)
                expected.append((window, sequence, entry[2], length))
                self.bytes += length
                size += length
                parts += (head, b"%d\r\n" % length, data, b"\r\n" if sign is None else _signed(sign(data)))
            index += 1
        else:
            if index == end and not self.catch_up.is_over:
                self.catch_up.end()
        self._index = index

    def expect(self, questions: Iterable[Expected]) -> None:
        """These questions are sent before the next frames."""
        self.expected.extend(questions)

    def confirm(self, replies: Iterator[Any]) -> tuple[int, Any] | None:
        """Take replies as long as they acknowledge frames: (kind, reply) of the first one that does not, with
        kind FRAME where a frame was to be acknowledged; None when all do."""
        catch_up = self.catch_up if self.catch_up.is_active else None
        expected = self.expected
        for reply in replies:
            window, number, made, length = expected.popleft() if expected else _SURPLUS
            self.bytes -= length
            if type(reply) is not bytes or (window is None and number != FRAME):
                self._refused = None if window is None else (window, number)
                return FRAME if window is not None else number, reply
            if window is not None:
                window.acknowledge(number, made, reply)
                if catch_up is not None:
                    catch_up.acknowledge(reply)
        return None

    def _waits(self, made: float, now: float) -> bool:
        """Whether it is not yet the turn of a frame that was made at ``made``."""
        if made > self._overload.newest:
            return True
        if now - made > self._old:
            return not self.catch_up.allows(made, now)
        if self.catch_up.is_active:
            self.catch_up.end()
        return False

    def _stamped(self, index: int, data: bytes, floor: int, hints: int) -> bytes:
        """A frame of the ring with another floor. One that was damaged there is given up: a right checksum
        would hide that."""
        window, sequence = self._outbox.entry(index)[:2]
        if window is not None and not frame.is_whole(data):
            give_up(self._outbox, window, sequence, DAMAGED)
            data = self._outbox.read(index)
        return frame.with_floor(data, floor, hints)

    def retreat(self) -> None:
        """Send again the frame that was just answered with an error, and all in flight: each window goes back to the
        first of these frames. The shard keeps what it has acknowledged before."""
        firsts = dict([self._refused] if self._refused is not None else [])
        for window, sequence, _, _ in self.expected:
            if window is not None:
                firsts.setdefault(window, sequence)
        for window, sequence in firsts.items():
            window.go_back(sequence)
        self._refused = None
        self.catch_up.end()
        self._look_again(firsts)

    def go_back(self, windows: Collection[SendWindow]) -> None:
        """Look at the ring from its start; what these windows have in flight no longer counts for them."""
        if any(window.highest and not window.has_position for window in windows):
            self.catch_up.refill()
        else:
            self.catch_up.end()
        self._look_again(windows)

    def _look_again(self, windows: Collection[SendWindow]) -> None:
        self._index = self._outbox.first
        for place, token in enumerate(self.expected):
            if token[0] in windows:
                self.expected[place] = (None, FRAME, 0, token[3])


def _head(key: bytes, signs: bool) -> bytes:
    """The command that adds a frame, up to the length of the frame."""
    return b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%s\r\n$1\r\n*\r\n$1\r\nf\r\n$" % (7 if signs else 5, len(key), key)


def _signed(signature: bytes) -> bytes:
    """Bytes that follow a signed frame: its signature."""
    return b"\r\n$1\r\n%s\r\n$%d\r\n%s\r\n" % (keys.SIGNATURE_FIELD, len(signature), signature)
