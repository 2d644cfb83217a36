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

#: Request that a reply belongs to: (window, sequence, made, bytes) for a frame, else (None, kind, 0, 0);
#: (None, FRAME, 0, bytes) for a frame sent before its window went back.
Expected = tuple[SendWindow | None, int, int, int]
FRAME = 0
#: A reply too many from the shard.
_SURPLUS: Expected = (None, -1, 0, 0)


class InFlight:
    """``expected`` are the unanswered requests, oldest first; read-only for others.

    Frames more than ``old`` seconds old wait for their turn (see ``acquisition.outbox.catch_up``)."""

    def __init__(self, outbox: Outbox, overload: Overload, old: float = OLD) -> None:
        self.expected: deque[Expected] = deque()
        self.bytes = 0  #: of unconfirmed frames
        self.catch_up = CatchUp()
        self._old = old
        self._outbox = outbox
        self._overload = overload
        self._index = outbox.first  # of the next frame to consider
        self._key = self._head = b""
        self._sign: Callable[[bytes], bytes] | None = None
        self._refused: tuple[SendWindow, int] | None = None  # the frame of the last reply, if that was an error

    @property
    def is_waiting(self) -> bool:
        """Whether there are frames not yet considered."""
        return self._index < self._outbox.end

    @property
    def may_go(self) -> bool:
        """Whether there are such frames, and none of them has to be held."""
        return self._index < self._outbox.end and not self._overload.state.hold

    def begin(self, tag: str) -> None:
        """A new connection: forget what was in flight."""
        self._key = keys.raw(tag).encode()
        self._head = _head(self._key, self._sign is not None)
        self.expected.clear()
        self.bytes = 0
        self.catch_up.end()

    def sign_with(self, sign: Callable[[bytes], bytes] | None) -> None:
        """Sign every frame from the next one on with ``sign`` of its bytes; None: no frame is signed."""
        self._sign = sign
        self._head = _head(self._key, sign is not None)
        for window in self._outbox.windows.values():
            window.stall.end()  # refused frames may be accepted now: they are sent again soon

    def take(self, parts: list[bytes], now: float) -> None:
        """Add the commands of the next frames to ``parts``, as many as may be in flight; shed where necessary."""
        sign, before = self._sign, self.bytes
        outbox, head, expected = self._outbox, self._head, self.expected
        sheds = self._overload.state.share < 1.0
        hints = frame.HINT_SHEDS if sheds else 0
        index, end = max(self._index, outbox.first), outbox.end
        size = self.bytes - before  # of the commands made so far
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
        """Expect replies to these questions, sent before the next frames."""
        self.expected.extend(questions)

    def confirm(self, replies: Iterator[Any]) -> tuple[int, Any] | None:
        """Process replies as long as they acknowledge frames: (kind, reply) of the first other one, with
        kind FRAME if a frame was to be acknowledged; None if there is none."""
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
        """Whether a frame made at ``made`` has to wait for its turn."""
        if made > self._overload.newest:
            return True
        if now - made > self._old:
            return not self.catch_up.allows(made, now)
        if self.catch_up.is_active:
            self.catch_up.end()
        return False

    def _stamped(self, index: int, data: bytes, floor: int, hints: int) -> bytes:
        """A frame of the ring with another floor. One damaged in the ring is given up: a correct checksum
        would hide the damage."""
        window, sequence = self._outbox.entry(index)[:2]
        if window is not None and not frame.is_whole(data):
            give_up(self._outbox, window, sequence, DAMAGED)
            data = self._outbox.read(index)
        return frame.with_floor(data, floor, hints)

    def retreat(self) -> None:
        """Send again the frame whose reply was an error, and all in flight: each window goes back to the
        first of these frames. Frames acknowledged before stay in the shard."""
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
        """Start again at the beginning of the ring; frames in flight no longer count for these windows."""
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
    """Command that adds a frame, up to the length of the frame."""
    return b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%s\r\n$1\r\n*\r\n$1\r\nf\r\n$" % (7 if signs else 5, len(key), key)


def _signed(signature: bytes) -> bytes:
    """Bytes that follow a signed frame: its signature."""
    return b"\r\n$1\r\n%s\r\n$%d\r\n%s\r\n" % (keys.SIGNATURE_FIELD, len(signature), signature)
