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
from acquisition.link.credentials import Credentials
from acquisition.link.resp import Address, ReplyError, pack
from acquisition.model.metric import resource_set_id
from acquisition.outbox.sender import Sender
from acquisition.outbox.window import SendWindow
from acquisition.wire import frame, keys, position, status, table
from acquisition.wire.frame import Frame, Samples
from experiments.emulation.emulated_host import Common, SampledHost
from experiments.emulation.workload import host_name, host_number

_TIMEOUT = 5.0
#: What is expected is (sequence, made) of a frame, or one of these.
_CURSOR, _POSITION, _STATUS = (-1, 0), (-2, 0), (-3, 0)


class LeanWriter:
    """What ``experiments.emulation.fleet`` and ``SampledHost`` need of ``acquisition.outbox.writer.Writer``."""

    def __init__(
        self, host: int, name: str, seeds: list[Address], credentials: Credentials, set_id: int, interval: float
    ) -> None:
        self.window = SendWindow(set_id, time.time_ns())
        self._host = host
        self._name = name
        self._sender = Sender(host, seeds, credentials, _TIMEOUT)
        self._interval = interval
        self._due = 0.0
        self._queue: list[bytes] = []
        self._numbers: list[tuple[int, int]] = []  # of the frames in the queue
        self._expected: deque[tuple[int, int]] = deque()
        self._head = self._questions = b""
        self._status_key = ""
        self._asked = False  #: positions were asked for, and the answers have not come

    @property
    def problem(self) -> str:
        """What keeps frames from going out, "" when nothing does."""
        return self._sender.problem

    def fileno(self) -> int:
        """The descriptor to poll, -1 when there is none."""
        return self._sender.fileno()

    @property
    def waits_for(self) -> tuple[int, int, int]:
        """What to poll. That frames were stored can wait until the next one is sent: nobody wakes for it."""
        descriptor, events, generation = self._sender.waits_for
        quiet = self._sender.ready and not self._asked and not self._sender.blocked
        return descriptor, 0 if quiet else events, generation

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()

    def wants_table(self, _resource_set: int) -> bool:
        """Whether the filter lacks the names, and no table has been offered since it said so."""
        return self.window.wants_table

    def offer(self, samples: Samples) -> int:
        """Number a frame and send it with the next ``service``."""
        resource_set, schema, entities, metrics, interval, tick, wall, monotonic, ids, values, codes = samples
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
        self._append(frame.encode(made), 0)
        window.note_table(number)
        return number

    def _append(self, data: bytes, samples: int) -> None:
        window = self.window
        window.drop_held()
        sequence = window.number(samples)
        window.send(sequence)
        self._numbers.append((sequence, window.made))
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
        if self._expected and not self._queue:  # what was stored can be read when there is nothing to send
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
        queue, window = self._queue, self.window
        parts: list[bytes] = []
        for place in range(0, len(queue), 2):
            parts += (self._head, queue[place], queue[place + 1], b"\r\n")
        queue.clear()
        self._expected.extend(self._numbers)
        self._numbers.clear()
        if now >= self._due:
            self._due = now + self._interval
            rest = {"position_interval": self._interval, "problem": self.problem}
            record = status.encode(self._name, time.time(), {window.resource_set: window.status()}, rest)
            parts += (self._questions, pack(("SET", self._status_key, record, "EX", str(status.EXPIRE_SECONDS))))
            self._expected.extend((_CURSOR, _POSITION, _STATUS))
            self._asked = True
        self._sender.send(b"".join(parts), now)

    def _receive(self, now: float) -> None:
        for reply in self._sender.receive(now):
            asked = self._expected.popleft()
            if isinstance(reply, ReplyError):
                self._sender.refuse(reply, now)
                return
            if asked[0] > 0:
                self.window.acknowledge(*asked, reply)
            elif asked == _POSITION and reply[0] is not None:
                self._learn(reply[0])
            elif asked == _STATUS:
                self._asked = False

    def _learn(self, data: bytes) -> None:
        try:
            found = position.decode(data)
        except FrameError:
            return
        if found.epoch == self.window.epoch:
            self.window.observe(found, b"")


class LeanHost(SampledHost):
    """An emulated host with a lean writer; see the module."""

    __slots__ = ("_window",)

    def __init__(
        self,
        common: Common,
        index: int,
        seeds: list[Address],
        position_interval: float,
        logged: bool,
        credentials: Credentials,
    ) -> None:
        number, name = host_number(index), host_name(index)
        writer = LeanWriter(number, name, seeds, credentials, common.set_id, position_interval)
        self._window = writer.window
        super().__init__(common, index, logged, writer)

    @property
    def window(self) -> SendWindow:
        """What was made and applied."""
        return self._window
