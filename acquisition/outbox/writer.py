"""The writer: numbers a probe's frames, keeps them in the outbox, sends them and goes back.

It never waits (``drain`` excepted): the caller offers frames when its ticks are due and
calls ``service`` after that, when the descriptor has events, and at the time that
``service`` returned. Every ``position_interval`` seconds it reads, in one pipeline with
the frames, the filter's cursor and its own applied positions, and writes its status.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from acquisition.errors import FrameError
from acquisition.link.resp import Address, Credentials, ReplyError, pack
from acquisition.model.metric import resource_set_id, schema_hash
from acquisition.outbox.sender import Sender
from acquisition.outbox.store import Outbox
from acquisition.outbox.window import SendWindow
from acquisition.wire import frame, keys, position, status, table
from acquisition.wire.frame import Frame
from acquisition.wire.position import Position

#: Frames sent and not yet acknowledged: bounds what one host can put before a shard at once.
_MOST_IN_FLIGHT = 1 << 18
_MOST_PER_SEND = 1 << 16
#: A reading may come earlier by this part of its interval, to share a system call with frames.
_EARLY = 0.25

#: What a reply answers: (window, sequence, made, bytes) for a frame, else (None, kind, 0, 0);
#: (None, _STALE, 0, bytes) for a frame that was sent before its window went back.
_Expected = tuple[SendWindow | None, int, int, int]
_CURSOR: _Expected = (None, 1, 0, 0)
_APPLIED: _Expected = (None, 2, 0, 0)
_STATUS: _Expected = (None, 3, 0, 0)
_SURPLUS: _Expected = (None, 4, 0, 0)
_STALE = 0


class Writer:
    """The writer of one host. ``timeout`` bounds every answer; ``problem`` says what keeps frames
    from going out, "" when nothing does (the caller reports it when it changes)."""

    def __init__(
        self,
        host: int,
        host_name: str,
        seeds: Sequence[Address],
        credentials: Credentials | None,
        outbox: Outbox,
        *,
        position_interval: float = 2.0,
        timeout: float = 1.0,
        wall: Callable[[], float] = time.time,
    ) -> None:
        if not seeds:
            raise ValueError("a writer needs the address of at least one shard")
        outbox.bind(host)
        self._host = host
        self._host_name = host_name
        self._outbox = outbox
        self._interval = position_interval
        self._timeout = timeout
        self._wall = wall
        self._sender = Sender(host, seeds, credentials, timeout)
        self._expected: deque[_Expected] = deque()
        self._in_flight = 0
        self._index = outbox.first  # of the next frame to look at
        self._reply_due = 0.0
        self._position_due = 0.0
        self._synchronizing = True
        self._asked: list[SendWindow] = []
        self._cursor = b""
        self._ask_positions = b""
        self._head = b""
        self._status_key = ""
        self._extra: dict[str, Any] = {}
        self._unreadable = 0

    @property
    def problem(self) -> str:
        """Why frames do not go out, "" when they do."""
        return self._sender.problem

    @property
    def generation(self) -> int:
        """Grows with every new connection: an epoll user then registers ``fileno`` again."""
        return self._sender.generation

    def offer(
        self,
        resource_set: int,
        schema: int,
        entities: int,
        metrics: int,
        interval: float,
        tick: int,
        wall: float,
        monotonic: float,
        ids: bytes,
        values: bytes,
        codes: bytes = b"",
    ) -> int:
        """Number a frame of samples, store and queue it; returns its sequence number.

        Raises FrameError("shape") when the parts do not fit together; nothing is stored then.
        """
        outbox = self._outbox
        window = outbox.windows.get(resource_set) or self._open(resource_set)
        at = outbox.make_room(frame.HEADER_SIZE + len(ids) + len(values) + len(codes))
        sequence = window.last + 1
        data = frame.encode(
            Frame(
                frame.KIND_SAMPLES,
                schema,
                self._host,
                resource_set,
                entities,
                metrics,
                interval,
                window.epoch,
                sequence,
                window.floor,
                window.made,
                tick,
                wall,
                monotonic,
                ids,
                values,
                codes,
            )
        )
        outbox.append(window, entities * metrics, data, at)
        return sequence

    def offer_table(self, names: table.Table, tick: int, wall: float, monotonic: float) -> int:
        """Number a table frame, store and queue it; returns its sequence number."""
        resource_set = resource_set_id(names.resource_set)
        window = self._outbox.windows.get(resource_set) or self._open(resource_set)
        sequence = self._append(
            window,
            Frame(
                frame.KIND_TABLE,
                schema_hash(names.metrics),
                self._host,
                resource_set,
                0,
                0,
                names.interval,
                0,
                0,
                0,
                0,
                tick,
                wall,
                monotonic,
                payload=table.encode(names),
            ),
        )
        if names.complete:
            window.table = sequence
            window.wants_table = False
        return sequence

    def wants_table(self, resource_set: int) -> bool:
        """Whether the filter may lack the names of a resource set; true once after any doubt."""
        window = self._outbox.windows.get(resource_set)
        if window is None:
            return True
        wants, window.wants_table = window.wants_table, False
        return wants

    def set_extra_status(self, values: dict[str, Any]) -> None:
        """What the status record shall say beside the writer's own account."""
        self._extra = values

    def fileno(self) -> int:
        """The descriptor to poll, -1 when there is none; it changes with every connection."""
        return self._sender.fileno()

    def events(self) -> int:
        """What to poll for: select.POLLIN, select.POLLOUT or both."""
        return self._sender.events()

    def service(self, now: float) -> float:
        """Send and receive as far as that is possible without waiting.

        ``now`` is CLOCK_MONOTONIC; returns the time at which it wants to be called again
        when there is neither an event nor an offer before.
        """
        sender = self._sender
        if not sender.ready:
            if not sender.advance(now):
                return sender.due
            self._begin()
        if not self._transmit(now) and self._expected and sender.ready:
            self._receive(now)
            if sender.ready and (self._index < self._outbox.end or now >= self._position_due):
                self._transmit(now)
        if not sender.ready:
            return sender.due
        if not self._expected:
            return self._position_due
        return min(self._reply_due, self._position_due) if not self._synchronizing else self._reply_due

    def drain(self, seconds: float) -> bool:
        """Wait at most ``seconds`` until the shard has acknowledged every frame and the status."""
        now = time.monotonic()
        end = now + seconds
        last_status = False
        while now < end:
            due = self.service(now)
            if self._is_settled():
                if last_status:
                    return True
                last_status = True
                self._position_due = now
                continue
            wait = max(0.0, min(due, end) - now)
            poll = select.poll()
            if self.fileno() >= 0:
                poll.register(self.fileno(), self.events())
            poll.poll(int(wait * 1000) + 1)
            now = time.monotonic()
        return False

    def account(self) -> dict[str, Any]:
        """What was made, sent, confirmed, dropped; the same figures as in the status record."""
        windows = self._outbox.windows.values()
        return {
            "sets": {window.resource_set: status.row(window)._asdict() for window in windows},
            "frames": sum(window.last for window in windows),
            "made": sum(window.made for window in windows),
            "resent_frames": sum(window.resent for window in windows),
            "dropped_frames": sum(window.dropped_frames for window in windows),
            "dropped_samples": sum(window.dropped_samples for window in windows),
            "unsent_frames": sum(window.last + 1 - window.next for window in windows),
            "problem": self.problem,
            **self._condition(),
        }

    def close(self) -> None:
        """Close connection and outbox; calling it again is harmless. Unsent frames stay in a ring file."""
        self._sender.close()
        self._outbox.close()

    def _condition(self) -> dict[str, Any]:
        outbox = self._outbox
        errors = {**self._sender.errors, **outbox.faults}
        if self._unreadable:
            errors["position"] = self._unreadable
        return {
            "ring": {
                "found": outbox.found,
                "bytes": outbox.bytes,
                "capacity_bytes": outbox.capacity,
                "frames": outbox.end - outbox.first,
            },
            "connections": self._sender.generation,
            "errors": errors,
        }

    def _open(self, resource_set: int) -> SendWindow:
        """A new window needs no question to the filter: nobody knows its epoch yet."""
        window = self._outbox.window(resource_set)
        window.synchronized = True
        self._ask_positions = b""
        return window

    def _append(self, window: SendWindow, content: Frame) -> int:
        size = frame.HEADER_SIZE + len(content.ids) + len(content.values) + len(content.codes) + len(content.payload)
        at = self._outbox.make_room(size)
        numbered = content._replace(epoch=window.epoch, sequence=window.last + 1, floor=window.floor, made=window.made)
        self._outbox.append(window, content.samples, frame.encode(numbered), at)
        return numbered.sequence

    def _begin(self) -> None:
        """A new connection: what was in flight is forgotten, the positions come first."""
        tag = self._sender.tag
        key = keys.raw(tag)
        self._head = f"*5\r\n$4\r\nXADD\r\n${len(key)}\r\n{key}\r\n$1\r\n*\r\n$1\r\nf\r\n$".encode()
        self._status_key = keys.status(tag, self._host)
        self._ask_positions = b""
        self._expected.clear()
        self._in_flight = 0
        self._synchronizing = True
        self._position_due = 0.0

    def _transmit(self, now: float) -> bool:
        """Send what may be sent; False when there was nothing, or the socket takes no more."""
        sender = self._sender
        if sender.blocked and not sender.flush(now):
            return False
        parts: list[bytes] = []
        frames_wait = not self._synchronizing and self._index < self._outbox.end
        if now >= self._position_due - (_EARLY * self._interval if frames_wait else 0.0):
            parts.append(self._questions(now))
        if frames_wait:
            self._take_frames(parts, now)
        if not parts:
            return False
        sender.send(b"".join(parts), now)
        return True

    def _questions(self, now: float) -> bytes:
        """Read cursor and positions, write the status; the cursor first, because then every frame
        that it has passed is in the positions, or is missing."""
        if not self._expected:
            self._reply_due = now + self._timeout
        self._position_due = now + self._interval
        self._outbox.check()
        if not self._ask_positions:
            self._asked = list(self._outbox.windows.values())
            tag = self._sender.tag
            members = [keys.member(self._host, window.resource_set) for window in self._asked]
            self._ask_positions = pack(("GET", keys.commit(tag)))
            if members:
                self._ask_positions += pack(("HMGET", keys.applied(tag), *members))
        self._expected.append(_CURSOR)
        if self._asked:
            self._expected.append(_APPLIED)
        else:
            self._synchronizing = False
        self._expected.append(_STATUS)
        rest = {**self._extra, **self._condition()}
        record = status.encode(self._host_name, self._wall(), self._asked, rest)
        return self._ask_positions + pack(("SET", self._status_key, record, "EX", status.EXPIRE_SECONDS))

    def _take_frames(self, parts: list[bytes], now: float) -> None:
        """Add the next frames in the order of the ring, as many as may be in flight."""
        outbox, head, expected = self._outbox, self._head, self._expected
        index = max(self._index, outbox.first)
        size = 0
        while index < outbox.end and size < _MOST_PER_SEND and self._in_flight < _MOST_IN_FLIGHT:
            entry = outbox.entry(index)
            window, sequence = entry[0], entry[1]
            if window is not None and sequence >= window.next:
                data = outbox.read(index)
                if sequence > window.next:
                    window.restamp = window.last  # the ring dropped what was to come next
                if sequence <= window.restamp:
                    data = frame.with_floor(data, window.floor)
                if not expected:
                    self._reply_due = now + self._timeout
                if sequence <= window.highest:
                    window.resent += 1
                else:
                    window.highest = sequence
                window.next = sequence + 1
                length = len(data)
                expected.append((window, sequence, entry[2], length))
                self._in_flight += length
                size += length
                parts += (head, b"%d\r\n" % length, data, b"\r\n")
            index += 1
        self._index = index

    def _receive(self, now: float) -> None:
        expected = self._expected
        replies = self._sender.receive(now)
        if not replies:
            if self._sender.ready and now >= self._reply_due:
                self._sender.fail("timeout", f"shard {self._sender.address} does not answer in time", now)
            return
        self._reply_due = now + self._timeout
        for reply in replies:
            window, number, made, length = expected.popleft() if expected else _SURPLUS
            if window is not None and type(reply) is bytes:
                window.acked = number
                window.acked_made = made
                window.acked_id = reply
                self._in_flight -= length
            elif isinstance(reply, ReplyError):
                self._sender.refuse(reply, now)
                return
            elif window is not None or not self._take(number, reply):
                self._sender.baffle(f"a question was answered with {reply!r:.200}", now)
                return
            else:
                self._in_flight -= length
        self._sender.succeed()

    def _take(self, kind: int, reply: Any) -> bool:
        """Take a reply to something else than a frame of now; False when it makes no sense."""
        if kind == _CURSOR[1] and (reply is None or type(reply) is bytes):
            self._cursor = _cursor(reply)
        elif kind == _APPLIED[1] and type(reply) is list and len(reply) == len(self._asked):
            self._take_positions(reply)
        else:
            return kind in (_STATUS[1], _STALE)
        return True

    def _take_positions(self, replies: list[bytes | None]) -> None:
        went_back = []
        for window, data in zip(self._asked, replies, strict=True):
            applied = self._decode(data)
            if window.is_ahead(applied):
                self._renumber(window)
                went_back.append(window)
            elif self._synchronizing:
                window.synchronize(applied)
                went_back.append(window)
            elif window.observe(applied, self._cursor):
                went_back.append(window)
        self._synchronizing = False
        if went_back:
            self._index = self._outbox.first
            for place, token in enumerate(self._expected):
                if token[0] in went_back:
                    self._expected[place] = (None, _STALE, 0, token[3])

    def _decode(self, data: bytes | None) -> Position | None:
        if data is None:
            return None
        try:
            return position.decode(data)
        except FrameError:
            self._unreadable += 1
            return None

    def _renumber(self, window: SendWindow) -> None:
        """Start a new epoch with the frames that the filter cannot have seen: see ``is_ahead``."""
        outbox = self._outbox
        unseen = [frame.decode(data) for data in outbox.frames_after(window, window.recovered)]
        outbox.void(window)
        window.restart(max(time.time_ns(), window.epoch + 1))
        window.synchronized = True
        for content in unseen:
            sequence = self._append(window, content)
            if content.kind == frame.KIND_TABLE and table.decode(content.payload).complete:
                window.table = sequence
                window.wants_table = False

    def _is_settled(self) -> bool:
        return (
            self._sender.ready
            and not self._synchronizing
            and not self._expected
            and not self._sender.blocked
            and self._index >= self._outbox.end
        )


def _cursor(data: bytes | None) -> bytes:
    """The stream id in ``<commit id> <cursor> <rejected>``."""
    words = (data or b"").split(b" ")
    return words[1] if len(words) > 1 else b""
