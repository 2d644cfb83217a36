"""Writer: numbers a probe's frames, keeps them in the outbox, sends and resends.

It never waits (``drain`` excepted): the caller offers frames when its ticks are due and
calls ``service`` after that, on events of the descriptor, and at the time
returned by ``service``. Every ``position_interval`` seconds it reads, in one pipeline with
the frames, the filter's cursor and its own applied positions, and writes its status.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from acquisition import log
from acquisition.link.local_shards import Seeds
from acquisition.link.resp import Address, ReplyError
from acquisition.link.trust.credentials import Credentials
from acquisition.model.metric import resource_set_id
from acquisition.outbox.catch_up import OLD
from acquisition.outbox.condition import Condition
from acquisition.outbox.frames.numbering import append_ends, append_table
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.frames.window import SendWindow
from acquisition.outbox.in_flight import InFlight
from acquisition.outbox.link.pause import Pause, is_absent
from acquisition.outbox.link.sender import Sender
from acquisition.outbox.overload import Overload
from acquisition.outbox.positions import APPLIED, STATUS, Positions
from acquisition.outbox.shedding import SHED_AFTER
from acquisition.wire import frame, status, table
from acquisition.wire.frame import Samples

LOG = log.category("probe.outbox")
#: A reading may come earlier by this part of its interval, to share a system call and a wake-up with frames. One that
#: comes alone between two ticks brings the next one nearer by LONE, which is less, until it coincides with a tick.
_EARLY = 0.25
_LONE = 0.2


class Writer:
    """The writer of one host. ``timeout`` bounds every answer; ``problem`` is the reason frames
    are not sent, "" if there is none (the caller reports changes of it). Frames more than ``old``
    seconds old are paced (infinite: never)."""

    def __init__(
        self,
        host: int,
        host_name: str,
        seeds: Seeds,
        credentials: Credentials | None,
        outbox: Outbox,
        *,
        position_interval: float = 2.0,
        timeout: float = 1.0,
        shed_after: float = SHED_AFTER,
        old: float = OLD,
    ) -> None:
        if not seeds:
            raise ValueError("expected at least one shard address")
        outbox.bind(host)
        self._host = host
        self._outbox = outbox
        self._timeout = timeout
        self._sender = Sender(host, seeds, credentials, timeout)
        self._overload = Overload(outbox, shed_after)
        self._in_flight = InFlight(outbox, self._overload, old)
        self._positions = Positions(host, host_name, outbox, position_interval)
        self._condition = Condition(outbox, self._sender, self._positions)
        self._pause = Pause()
        self._reply_due = 0.0
        self._sent_frames = False  # since the newest reading
        self._extra = b""  #: fields of the status record beside our own account

    @property
    def problem(self) -> str:
        """Why frames are not sent, "" if they are."""
        return self._sender.problem

    @property
    def refused(self) -> str:
        """Why the filter refuses frames that it could otherwise take; "" if it does not."""
        return self._condition.refused

    @property
    def needs_a_person(self) -> bool:
        """Whether ``problem`` will not pass by itself, such as wrong credentials."""
        return self._sender.needs_a_person

    @property
    def not_admitted(self) -> bool:
        """Whether ``problem`` is a shard that the configuration does not permit contact with (AdmissionError)."""
        return self._sender.not_admitted

    @property
    def is_well(self) -> bool:
        """Whether ``problem``, ``refused`` and ``contested`` are all empty or false."""
        return self._condition.is_well

    @property
    def contested(self) -> bool:
        """Whether another sender uses the name of this host."""
        return self._condition.contested

    @property
    def address(self) -> Address | None:
        """The shard that frames are, or will be, sent to."""
        return self._sender.address

    def sign_with(self, sign: Callable[[bytes], bytes] | None) -> None:
        """Sign frames from now on with ``sign`` of their bytes, including those sent again;
        None: frames are not signed."""
        self._in_flight.sign_with(sign)
        self._condition.judge()

    def offer(self, samples: Samples) -> int:
        """Number a frame of samples, store and queue it; returns its sequence number.

        Raises FrameError("shape") if the parts do not fit together; nothing is stored then.
        """
        resource_set, schema, entities, metrics, interval, tick, wall, monotonic, ids, values, codes = samples
        outbox = self._outbox
        window = outbox.windows.get(resource_set) or self._open(resource_set)
        at = outbox.make_room(frame.HEADER_SIZE + len(ids) + len(values) + len(codes))
        sequence = window.last + 1
        data = frame.pack(
            frame.KIND_SAMPLES, schema, self._host, resource_set, entities, metrics, interval, window.epoch, sequence,
            window.floor, window.made, tick, wall, monotonic, ids, values, codes,
        )  # fmt: skip
        outbox.append(window, entities * metrics, data, at)
        return sequence

    def offer_table(self, names: table.Table, tick: int, wall: float, monotonic: float) -> int:
        """Number a table frame, store and queue it; returns its sequence number."""
        resource_set = resource_set_id(names.resource_set)
        window = self._outbox.windows.get(resource_set) or self._open(resource_set)
        return append_table(self._outbox, window, names, tick, wall, monotonic)

    def wants_table(self, resource_set: int) -> bool:
        """Whether the filter may lack names of a resource set: true at the start and after any doubt, until a
        complete table is offered."""
        window = self._outbox.windows.get(resource_set)
        return window is None or window.wants_table

    def set_extra_status(self, values: dict[str, Any]) -> None:
        """Set the fields of the status record beside the writer's own account."""
        self._extra = status.members(values)

    @property
    def waits_for(self) -> tuple[int, int, int]:
        """``fileno``, ``events`` and a number that grows with every new connection: an epoll user then registers the
        descriptor again."""
        return self._sender.waits_for

    def service(self, now: float) -> float:
        """Send and receive as far as possible without waiting.

        ``now`` is CLOCK_MONOTONIC; returns the time of the next call
        if there is neither an event nor an offer before.
        """
        sender, in_flight, positions = self._sender, self._in_flight, self._positions
        expected = in_flight.expected
        if not sender.ready:
            if not sender.advance(now):
                return sender.due
            self._begin()
        pause = self._pause
        may_send = in_flight.is_waiting or now >= positions.due or sender.blocked or pause.is_on
        if not (may_send and self._transmit(now)) and (expected or pause.is_on) and sender.ready:
            self._receive(now)
            if sender.ready and (in_flight.is_waiting or now >= positions.due):
                self._transmit(now)
        if not sender.ready:
            return sender.due
        if pause.is_on:
            return self._reply_due if expected else pause.due
        due = positions.due
        if now < in_flight.catch_up.due < due:  # otherwise old frames wait for something else
            due = in_flight.catch_up.due
        if not expected:
            return due
        return min(self._reply_due, due) if not positions.synchronizing else self._reply_due

    def finish(self, seconds: float) -> bool:
        """Announce that no more frames will come, then ``drain``. A later process may still continue."""
        append_ends(self._outbox)
        return self.drain(seconds)

    def drain(self, seconds: float) -> bool:
        """Wait at most ``seconds`` until every frame and the status are acknowledged, unless ``not_admitted``."""
        now = time.monotonic()
        end = now + seconds
        last_status = False
        while now < end and not self.not_admitted:
            due = self.service(now)
            if self._is_settled():
                if last_status:
                    return True
                last_status = True
                self._positions.hasten(now)
                continue
            self._sender.wait(max(0.0, min(due, end) - now))
            now = time.monotonic()
        return False

    def account(self) -> dict[str, Any]:
        """Sums over all windows, a row for each window, and the condition; the same figures as in the status record."""
        return self._condition.account()

    def close(self) -> None:
        """Close connection and outbox; calling it again is harmless. Unsent frames stay in a ring file."""
        self._sender.close()
        self._outbox.close()

    def _open(self, resource_set: int) -> SendWindow:
        """A new window needs no position from the filter: its epoch is not known there yet."""
        window = self._outbox.window(resource_set)
        window.synchronize(None)
        self._positions.include_new_sets()
        return window

    def _begin(self) -> None:
        """A new connection: forget what was in flight, read the positions first."""
        self._in_flight.begin(self._sender.tag)
        self._positions.begin(self._sender.tag)
        self._overload.doubt()
        self._pause.forget()

    def _transmit(self, now: float) -> bool:
        """Send as much as permitted; False if there was nothing, or the socket accepts no more."""
        sender = self._sender
        if sender.blocked and not sender.flush(now):
            return False
        if self._pause.is_on:
            return self._ask_again(now)
        positions, in_flight = self._positions, self._in_flight
        catch_up = in_flight.catch_up
        parts: list[bytes] = []
        was_idle = not in_flight.expected
        frames_wait = not positions.synchronizing and in_flight.may_go
        interval = min(catch_up.reading, positions.interval) if catch_up.is_active else positions.interval
        if now >= positions.due - (_EARLY * interval if frames_wait else 0.0):
            parts.append(self._questions(now))
            if not frames_wait and self._sent_frames:
                positions.hasten(now + (1.0 - _LONE) * interval)
            self._sent_frames = False
        if frames_wait:
            self._sent_frames = True
            in_flight.take(parts, now)
            if catch_up.is_active:
                positions.hasten(now + catch_up.reading)
        if not parts:
            return False
        if was_idle:
            self._reply_due = now + self._timeout
        if LOG.debugs:
            LOG.debug("sent", bytes=sum(map(len, parts)), unconfirmed_bytes=in_flight.bytes, shard=sender.address)
        sender.send(b"".join(parts), now)
        return True

    def _ask_again(self, now: float) -> bool:
        """While frames wait, send the questions alone, with a status: it is refused as frames are."""
        if now < self._pause.due or self._in_flight.expected:
            return False
        self._pause.ask()
        self._positions.demand_status()
        self._reply_due = now + self._timeout
        self._sender.send(self._questions(now), now)
        return True

    def _questions(self, now: float) -> bytes:
        self._outbox.check()
        commands, expected = self._positions.questions(now, self._condition.status, self._extra)
        self._in_flight.expect(expected)
        return commands

    def _receive(self, now: float) -> None:
        sender = self._sender
        replies = sender.receive(now)
        if not replies:
            if sender.ready and self._in_flight.expected and now >= self._reply_due:
                sender.fail("timeout", f"shard {sender.address} timed out", now)
            return
        self._reply_due = now + self._timeout
        unconfirmed = self._in_flight.bytes
        rest = iter(replies)
        while (answer := self._in_flight.confirm(rest)) is not None:
            if not self._take(*answer, now):
                return
        if not self._pause.is_on:
            sender.succeed(took=self._in_flight.bytes < unconfirmed)

    def _take(self, kind: int, reply: Any, now: float) -> bool:
        """Process a reply that does not acknowledge a frame; False if it ends the connection."""
        if isinstance(reply, ReplyError) and not self._positions.forgives(kind):
            return self._bear(reply, now)
        went_back = self._positions.take(kind, reply)
        if went_back or kind == APPLIED:
            self._condition.judge()
        if went_back is None:
            self._sender.baffle(f"unexpected reply: {reply!r:.200}", now)
            return False
        if went_back:
            if LOG.informs:
                LOG.info("resending", sets=len(went_back), frames=sum(w.last + 1 - w.next for w in went_back))
            self._in_flight.go_back(went_back)
            self._overload.doubt()
        elif kind == APPLIED and not self._pause.is_on:
            self._observe(now)
        elif kind == STATUS and self._pause.is_asked:
            self._pause.end()
            self._overload.doubt()
        return True

    def _bear(self, error: ReplyError, now: float) -> bool:
        """Let frames wait on this connection if that helps; False if the error ends it."""
        pause, word = self._pause, str(error).partition(" ")[0]
        if not pause.allows(word, now):
            self._sender.refuse(error, now)
            return False
        if pause.is_on and not pause.is_asked:  # it was in flight with what was refused before
            return True
        self._in_flight.retreat()
        self._overload.doubt()
        if is_absent(word):
            self._positions.doubt()
        pause.begin(self._sender.bear(error, now))
        return True

    def _observe(self, now: float) -> None:
        """After a reading of the positions: while frames are held, or old ones sent, the next one comes sooner."""
        positions, overload, catch_up = self._positions, self._overload, self._in_flight.catch_up
        cursor, fair_share = positions.cursor, positions.fair_share
        if LOG.debugs:
            LOG.debug("applied", cursor=cursor, fair_share=fair_share, held_bytes=self._outbox.bytes)
        if catch_up.is_active:
            catch_up.observe(cursor, now)
            positions.hasten(now + catch_up.reading)
        overload.observe(now, cursor, fair_share)
        positions.hasten(now + overload.reading(positions.interval))

    def _is_settled(self) -> bool:
        return (
            self._sender.ready
            and not self._pause.is_on
            and not self._positions.synchronizing
            and not self._in_flight.expected
            and not self._sender.blocked
            and not self._in_flight.is_waiting
        )
