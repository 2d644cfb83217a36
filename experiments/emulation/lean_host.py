"""A lean emulated host: the frames, the connection and the questions of a probe, without its outbox.

On a machine of two cores a generator of ten thousand product writers takes a core of its own, which the
pipeline that is to be measured then lacks. A lean host makes the same frames and sends the same commands
over a connection of its own, but holds no frame that was sent: after an error it cannot send again, its
floor says so, and the run fails by what the filter counts as lost.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from acquisition.errors import FrameError
from acquisition.link.resp import Address, ReplyError, pack
from acquisition.model.metric import resource_set_id
from acquisition.outbox.sender import Sender
from acquisition.outbox.window import SendWindow
from acquisition.wire import frame, keys, position, status, table
from acquisition.wire.frame import Frame
from acquisition.wire.position import WANT_TABLE
from experiments.emulation.emulated_host import Common, SampledHost
from experiments.emulation.workload import host_name, host_number

_TIMEOUT = 5.0
_FRAME, _CURSOR, _POSITION, _STATUS = range(4)


class LeanWriter:
    """What ``experiments.emulation.fleet`` and ``SampledHost`` need of ``acquisition.outbox.writer.Writer``."""

    def __init__(self, host: int, name: str, seeds: list[Address], set_id: int, position_interval: float) -> None:
        self.window = SendWindow(set_id, time.time_ns())
        self._host = host
        self._name = name
        self._sender = Sender(host, seeds, None, _TIMEOUT)
        self._interval = position_interval
        self._due = 0.0
        self._queue: list[bytes] = []
        self._expected: deque[int] = deque()
        self._head = self._questions = b""
        self._status_key = ""
        self._asked = False  #: positions were asked for, and the answers have not come

    @property
    def problem(self) -> str:
        """What keeps frames from going out, "" when nothing does."""
        return self._sender.problem

    @property
    def generation(self) -> int:
        """Grows with every new connection."""
        return self._sender.generation

    def fileno(self) -> int:
        """The descriptor to poll, -1 when there is none."""
        return self._sender.fileno()

    def events(self) -> int:
        """What to poll for. That frames were stored can wait until the next one is sent: nobody wakes for it."""
        sender = self._sender
        return 0 if sender.ready and not self._asked and not sender.blocked else sender.events()

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()

    def wants_table(self, _resource_set: int) -> bool:
        """Whether the filter lacks the names; true once after it said so."""
        wants, self.window.wants_table = self.window.wants_table, False
        return wants

    def offer(
        self, resource_set: int, schema: int, entities: int, metrics: int, interval: float, tick: int, wall: float,
        monotonic: float, ids: bytes, values: bytes, codes: bytes = b"",
    ) -> int:  # fmt: skip
        """Number a frame and send it with the next ``service``."""
        window = self.window
        number = window.last + 1
        data = frame.encode(
            Frame(
                frame.KIND_SAMPLES, schema, self._host, resource_set, entities, metrics, interval, window.epoch,
                number, number, window.made, tick, wall, monotonic, ids, values, codes,
            )
        )  # fmt: skip
        self._append(data, entities * metrics)
        return number

    def offer_table(self, names: table.Table, tick: int, wall: float, monotonic: float) -> int:
        """The same for the names."""
        window = self.window
        number = window.last + 1
        made = Frame(
            frame.KIND_TABLE, 0, self._host, resource_set_id(names.resource_set), 0, 0, names.interval, window.epoch,
            number, number, window.made, tick, wall, monotonic, payload=table.encode(names),
        )  # fmt: skip
        window.wants_table = False
        self._append(frame.encode(made), 0)
        return number

    def _append(self, data: bytes, samples: int) -> None:
        window = self.window
        window.last = window.floor = window.highest = window.last + 1
        window.next = window.last + 1
        window.floor_made = window.made
        window.made += samples
        self._queue += (b"%d\r\n" % len(data), data)

    def service(self, now: float) -> float:
        """Send and receive without waiting; when to be called again."""
        sender = self._sender
        if not sender.ready:
            if not sender.advance(now):
                return sender.due
            self._begin()
        if sender.blocked and not sender.flush(now):
            return now + self._interval
        if self._expected:
            self._receive(now)
        if sender.ready and (self._queue or now >= self._due):
            self._transmit(now)
        return self._due

    def account(self) -> dict[str, Any]:
        """The figures that a writer's account has as well."""
        window = self.window
        return {
            "frames": window.last,
            "made": window.made,
            "connections": self._sender.generation,
            "errors": self._sender.errors,
        }

    def _begin(self) -> None:
        tag = self._sender.tag
        key = keys.raw(tag)
        self._head = f"*5\r\n$4\r\nXADD\r\n${len(key)}\r\n{key}\r\n$1\r\n*\r\n$1\r\nf\r\n$".encode()
        member = keys.member(self._host, self.window.resource_set)
        self._questions = pack(("GET", keys.commit(tag))) + pack(("HMGET", keys.applied(tag), member))
        self._status_key = keys.status(tag, self._host)
        self._expected.clear()
        self._asked = False
        self._due = 0.0

    def _transmit(self, now: float) -> None:
        queue = self._queue
        parts: list[bytes] = []
        for place in range(0, len(queue), 2):
            parts += (self._head, queue[place], queue[place + 1], b"\r\n")
            self._expected.append(_FRAME)
        queue.clear()
        if now >= self._due:
            self._due = now + self._interval
            record = status.encode(
                self._name, time.time(), [self.window], {"position_interval": self._interval, "problem": self.problem}
            )
            parts += (self._questions, pack(("SET", self._status_key, record, "EX", status.EXPIRE_SECONDS)))
            self._expected.extend((_CURSOR, _POSITION, _STATUS))
            self._asked = True
        self._sender.send(b"".join(parts), now)

    def _receive(self, now: float) -> None:
        for reply in self._sender.receive(now):
            kind = self._expected.popleft()
            if isinstance(reply, ReplyError):
                self._sender.refuse(reply, now)
                return
            if kind == _FRAME:
                self.window.acked_id = reply
            elif kind == _POSITION and reply[0] is not None:
                self._learn(reply[0])
            elif kind == _STATUS:
                self._asked = False

    def _learn(self, data: bytes) -> None:
        try:
            found = position.decode(data)
        except FrameError:
            return
        if found.epoch == self.window.epoch:
            self.window.applied = found.sequence
            self.window.wants_table |= bool(found.flags & WANT_TABLE) and self.window.last == found.sequence


class LeanHost(SampledHost):
    """An emulated host with a lean writer; see the module."""

    __slots__ = ("_window",)

    def __init__(
        self, common: Common, index: int, seeds: list[Address], position_interval: float, logged: bool
    ) -> None:
        writer = LeanWriter(host_number(index), host_name(index), seeds, common.set_id, position_interval)
        self._window = writer.window
        super().__init__(common, index, logged, writer)

    @property
    def window(self) -> SendWindow:
        """What was made and applied."""
        return self._window
