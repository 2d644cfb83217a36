"""Lean emulated host: frames, connection and queries, without an outbox.

On a machine of two cores a generator of ten thousand product writers takes a core of its own, which the measured
pipeline then lacks. A lean host makes the same frames and sends the same commands over a connection of its own, but
keeps no sent frame: after an error it cannot resend, as its floor shows, and the run fails by the losses counted by the
filter.

With ``lanes`` (``experiments.emulation.lanes``) plain frames are made and sent in C, and this module makes only the
others: those after a change of rows, and those with a request for positions.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from acquisition.errors import FrameError
from acquisition.link.resp import Address, ReplyError, pack
from acquisition.link.trust.credentials import Credentials
from acquisition.model.metric import resource_set_id
from acquisition.outbox.frames.window import SendWindow
from acquisition.outbox.link.sender import Sender
from acquisition.wire import frame, keys, position, status, table
from acquisition.wire.frame import Frame, Samples
from experiments.emulation import lanes as native
from experiments.emulation.emulated_host import Common, SampledHost
from experiments.emulation.lanes import Lane, Lanes, Outcome
from experiments.emulation.workload import host_name, host_number

_TIMEOUT = 5.0
_RARELY = 5.0  #: seconds between two requests, from which answers are read with the next one
#: Expected answers are (sequence, made) of a frame, or one of these.
_CURSOR, _POSITION, _STATUS = (-1, 0), (-2, 0), (-3, 0)


class LeanWriter:
    """The part of ``acquisition.outbox.writer.Writer`` used by ``experiments.emulation.fleet`` and ``SampledHost``."""

    def __init__(
        self,
        host: int,
        name: str,
        seeds: list[Address],
        credentials: Credentials,
        set_id: int,
        interval: float,
        lane: Lane | None = None,
        metrics: int = 0,
    ) -> None:
        self.window = SendWindow(set_id, time.time_ns())
        self._lane = None if credentials.authority else lane  #: C does not support TLS
        self._metrics = metrics
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
        self._asked = False  #: positions were requested, and the answers have not come

    @property
    def problem(self) -> str:
        """Problem that keeps frames from being sent; "" without one."""
        return self._sender.problem

    @property
    def waits_for(self) -> tuple[int, int, int]:
        """Descriptor and events to poll. Replies for stored frames can wait until the next request for positions, and
        so can positions requested rarely: no wake-up for them."""
        descriptor, events, generation = self._sender.waits_for
        patient = not self._asked or self._interval >= _RARELY
        quiet = self._sender.ready and patient and not self._sender.blocked
        return descriptor, 0 if quiet else events, generation

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()

    def wants_table(self, _resource_set: int) -> bool:
        """Whether the filter lacks the names, and no table has been offered since it reported that."""
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

    def catch_up(self) -> None:
        """Number the frames made in C meanwhile."""
        lane, window = self._lane, self.window
        if lane is not None:
            while window.last < lane.last:
                window.drop_held()
                sequence = window.number(lane.rows * self._metrics)
                window.send(sequence)
                self._expected.append((sequence, window.made))

    def send_rest(self, rest: bytes, now: float) -> None:
        """Send the rest of a frame made in C, which the socket did not take."""
        self.catch_up()
        self._sender.send(rest, now)

    def service(self, now: float) -> float:
        """Send and receive without waiting; returns the time of the next call."""
        self.catch_up()
        due = self._service(now)
        if self._lane is not None:
            self._hand_over(self._lane)
        return due

    def _service(self, now: float) -> float:
        sender = self._sender
        if not sender.ready:
            if not sender.advance(now):
                return sender.due
            self._begin()
        if sender.blocked and not sender.flush(now):
            return now + self._interval
        if self._expected and not self._queue and (self._asked or now >= self._due):  # stored frames can wait
            self._receive(now)
        if sender.ready and (self._queue or now >= self._due):
            self._transmit(now)
        return self._due

    def _hand_over(self, lane: Lane) -> None:
        """Set whether the next frames may be made in C."""
        window, sender = self.window, self._sender
        lane.last, lane.made, lane.due = window.last, window.made, self._due
        lane.descriptor = sender.fileno()
        plain = sender.ready and not sender.blocked and not self._queue and not window.wants_table
        lane.plain = lane.plain | native.PLAIN if plain else lane.plain & ~native.PLAIN

    def account(self) -> dict[str, Any]:
        """Figures as in a writer's account."""
        self.catch_up()
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
        if self._lane is not None:
            self._lane.head, self._lane.head_size = native.address(self._head), len(self._head)
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
    """An emulated host with a lean writer; see the module. ``number`` is that of its lane."""

    __slots__ = ("_lane", "_lanes", "_number", "_window")

    writer: LeanWriter

    def __init__(
        self,
        common: Common,
        index: int,
        seeds: list[Address],
        position_interval: float,
        logged: bool,
        credentials: Credentials,
        lanes: Lanes | None = None,
        number: int = 0,
    ) -> None:
        host, name = host_number(index), host_name(index)
        self._lanes, self._number = lanes, number
        self._lane = None if lanes is None else lanes.lanes[number]
        metrics = common.workload.metrics
        writer = LeanWriter(host, name, seeds, credentials, common.set_id, position_interval, self._lane, metrics)
        self._window = writer.window
        super().__init__(common, index, logged, writer)
        if self._lane is not None:
            lane = self._lane
            lane.host, lane.epoch, lane.start = host, writer.window.epoch, self._start
            lane.churn_phase = self.membership.phase
            lane.plain = native.LOGGED if logged else 0
            self._describe(lane)

    @property
    def window(self) -> SendWindow:
        """Window over frames made and applied."""
        self.writer.catch_up()
        return self._window

    def early(self) -> float:
        """Seconds by which the next sampling ends before it is due."""
        self._count()
        return super().early()

    def sample(self, tick: int, wall: float, monotonic: float) -> int:
        """Make the next frame and send it: in C, if it is plain."""
        lane = self._lane
        if lane is None or self._lanes is None:
            return super().sample(tick, wall, monotonic)
        made = self._lanes.one(self._number, tick, wall, monotonic)
        if made.outcome is not Outcome.PYTHON:
            self.made = lane.frames
            if self.log is not None:
                self.log.append(monotonic)
            if made.outcome is Outcome.REST:
                self.send_rest(made.rest)
            return made.samples
        self._count()
        self.writer.catch_up()
        samples = super().sample(tick, wall, monotonic)
        self._describe(lane)
        return samples

    def send_rest(self, rest: bytes) -> None:
        """Send the rest of the last frame, which the socket did not take."""
        self.writer.send_rest(rest, time.monotonic())

    def _describe(self, lane: Lane) -> None:
        """Describe its current rows and its next frame in the lane."""
        members = self.membership.members
        lane.rows, lane.ids, lane.frames = len(members.serials), native.address(members.ids), self.made

    def _count(self) -> None:
        if self._lane is not None and self._lane.frames > self.made:
            self.made = self._lane.frames
