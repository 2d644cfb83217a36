"""A connection to the shard that owns a host's partition, which never waits.

::

    BACK_OFF ──▶ OPENING ──▶ ASKING (layout, slots) ──▶ OPENING (the owner) ──▶ READY
       ▲  └──▶ CONSULTING (the guide) ──────────────────────▲                    │
       └────────── any error, MOVED, ASK, no answer in time ─────────────────────┘

The owner of this calls ``advance`` until ``ready``, then ``send`` and ``receive``. Any error ends the connection, but
for those of which the owner knows that they pass (``bear``): what was in flight is then unknown, and the filter's
position is asked for before anything is sent again.

A shard that has answered, and that names another one as the owner, stays connected as the *guide* until the owner is
reached: while that one is dead or slow, the guide is asked whether it still is the owner. So a failover takes a
handshake of a shard that lives, not one for each attempt.
"""

from __future__ import annotations

from typing import Any

from acquisition.errors import AdmissionError, ShardError, ShardpulseError, TemporaryError
from acquisition.link import admission
from acquisition.link.credentials import Credentials
from acquisition.link.local_shards import Seeds, look
from acquisition.link.resp import Address, ReplyError, error_for, pack
from acquisition.link.slots import redirection
from acquisition.outbox.back_off import BackOff
from acquisition.outbox.connection import NOT_ADMITTED, ConnectionFailed, ShardConnection
from acquisition.outbox.guide import Guide
from acquisition.outbox.lookup import Lookup
from acquisition.outbox.route import Route

BACK_OFF, CONSULTING, OPENING, ASKING, READY = range(5)


class Sender:
    """``timeout`` bounds each step of finding the owner. ``errors`` counts by kind (``moved loading
    oom noauth timeout closed refused …``); ``problem`` is what keeps it from being ready, or why
    what was sent last was refused, until something is taken; "" when all is well.
    ``needs_a_person`` is whether it does not pass by itself, ``not_admitted`` whether the shard must not be spoken to
    as things are configured; ``generation`` grows with every
    connection that became ready; ``due`` is when ``advance`` wants to be called if nothing happens before."""

    def __init__(self, host: int, seeds: Seeds, credentials: Credentials | None, timeout: float) -> None:
        self.ready = False
        self.due = 0.0
        self.problem = "not connected yet"
        self._refused = ""  #: why it took nothing of what was sent last
        self.needs_a_person = self.not_admitted = False
        self.errors: dict[str, int] = {}
        self.generation = 0
        self.address: Address | None = None
        self._seeds = seeds
        self._route = Route(host)
        self._back_off = BackOff(host, timeout)
        self._given = self._credentials = credentials
        self._timeout = timeout
        self._state = BACK_OFF
        self._target: Address | None = None
        self._failed: Address | None = None  #: the shard of the newest failure
        self._deadline = 0.0
        self._lookups: dict[Address, Lookup] = {}
        self._connection: ShardConnection | None = None
        self._guide: Guide | None = None
        self._questions: list[str] = []
        self._flowing: tuple[int, int, int] | None = None  #: what ``waits_for`` while it is ready and not blocked

    @property
    def tag(self) -> str:
        """The hash tag of the host's partition, "" until the layout is known."""
        return self._route.tag

    def fileno(self) -> int:
        """The socket's descriptor, -1 when there is none."""
        asked = self._asked
        return asked.fileno() if asked is not None else -1

    def events(self) -> int:
        """What to poll the descriptor for."""
        asked = self._asked
        return asked.events() if asked is not None else 0

    @property
    def waits_for(self) -> tuple[int, int, int]:
        """Descriptor, events and ``generation``: for a loop that looks after each service whether they are others."""
        if self._flowing is not None and not self.blocked:
            return self._flowing
        return self.fileno(), self.events(), self.generation

    @property
    def blocked(self) -> bool:
        """Whether the socket has not yet taken all that was sent."""
        return self._connection is not None and self._connection.blocked

    @property
    def _asked(self) -> ShardConnection | None:
        """The connection on which something is expected."""
        return self._guide.connection if self._state == CONSULTING and self._guide is not None else self._connection

    def advance(self, now: float) -> bool:
        """Go on towards ``ready`` as far as that is possible without waiting; returns whether it is."""
        try:
            if self._state == BACK_OFF:
                if now < self.due:
                    return False
                self._begin(now)
            if self._state == CONSULTING:
                self._consult(now)
            if self._state == OPENING:
                self._finish_opening(now)
            if self._state == ASKING:
                self._hear(now)
        except ConnectionFailed as error:
            self._end(error, now)
        return self.ready

    def send(self, data: bytes, now: float) -> None:
        """Send, or keep for ``flush`` what the socket does not take now. Only when not ``blocked``."""
        if self._connection is not None:
            try:
                self._connection.send(data)
            except ConnectionFailed as error:
                self._end(error, now)

    def flush(self, now: float) -> bool:
        """Send what was kept; returns whether the socket has taken all of it."""
        if self._connection is None:
            return False
        try:
            return self._connection.flush()
        except ConnectionFailed as error:
            self._end(error, now)
            return False

    def receive(self, now: float) -> list[Any]:
        """The replies that have arrived, errors as values; without waiting."""
        if self._connection is None:
            return []
        try:
            return self._connection.receive()
        except ConnectionFailed as error:
            self._end(error, now)
            return []

    def succeed(self, took: bool) -> None:
        """The shard answered; ``took``: it has taken a frame. The next failure starts with a short delay again, unless
        frames were refused last."""
        if took and self._refused:
            self._refused = self.problem = ""
        if not self._refused:
            self._back_off.succeed()

    def refuse(self, error: ReplyError, now: float) -> None:
        """The shard answered with an error: find the owner again, at once or later."""
        word, _, rest = str(error).partition(" ")
        told, slow = self._explained(error, word)
        self._refused = told if self.ready and word not in ("MOVED", "ASK") else ""
        self.fail(word.lower(), told, now, slow)
        if word == "MOVED":
            self._target = redirection(rest, self.address) if self.address else None
            if self._back_off.attempts <= 1:
                self.due = now

    def bear(self, error: ReplyError, now: float) -> float:
        """The shard answered with an error that passes: count it, say so, stay connected; returns when to ask again."""
        word = str(error).partition(" ")[0]
        self._count(word.lower())
        self._refused, self.needs_a_person = self._explained(error, word)
        self.problem = self._refused
        return now + self._back_off.after(self.needs_a_person)

    def _explained(self, error: ReplyError, word: str) -> tuple[str, bool]:
        """What to tell a person of an error, and whether only a person can repair it."""
        known = error_for(error, self.address)
        slow = not isinstance(known, TemporaryError) and word not in ("MOVED", "ASK")
        return f"shard {self.address} is full and takes nothing ({error})" if word == "OOM" else str(known), slow

    def _count(self, kind: str) -> None:
        self.errors[kind] = self.errors.get(kind, 0) + 1

    def baffle(self, reply: str, now: float) -> None:
        """The shard answered with something that no shard answers."""
        self.fail("protocol", f"{self.address} is no Redis: {reply}", now, slow=True)

    def fail(self, kind: str, problem: str, now: float, slow: bool = False) -> None:
        """Close the connection, count, and try again after a delay; ``slow`` when only a person can repair it."""
        hung_up = self.ready and kind == "closed"
        self._drop()
        if slow or (self._guide is not None and self._guide.connection.fileno() < 0):
            self._dismiss()
        self._count(kind)
        self.problem, self.needs_a_person, self.not_admitted = problem, slow, kind == NOT_ADMITTED
        # a living shard ends connections when passwords are exchanged; a dead one refuses the next, which costs nothing
        self._target, self._failed = self.address if hung_up else None, self.address
        self._route.forget_owners()
        self.due = now + self._back_off.after(slow)

    def close(self) -> None:
        """Close all connections; ``advance`` makes another one."""
        self._drop()
        self._dismiss()

    def _end(self, error: ConnectionFailed, now: float) -> None:
        self.fail(error.kind, str(error), now, error.needs_a_person)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.ready, self._flowing = False, None
        self._state = BACK_OFF

    def _dismiss(self) -> None:
        if self._guide is not None:
            self._guide.connection.close()
            self._guide = None

    def _begin(self, now: float) -> None:
        """Ask the guide again, or go where the last shard pointed to, else to any of the shards: local ones may be
        other ones by now."""
        before = self._credentials
        try:
            found = look(self._seeds)
            self._credentials = found.credentials or self._given
            self._route.begin(found)
        except ShardpulseError as error:
            self.fail("absent", str(error), now)
            return
        if self._guide is not None and (self._guide.is_over(now) or before != self._credentials):
            self._dismiss()
        if self._guide is not None:
            self.address = self._guide.connection.address
            self._guide.ask(now)
            self._state = CONSULTING
        else:
            self._open(self._target or self._route.candidate(self._back_off.attempts, self._failed), now)

    def _consult(self, now: float) -> None:
        """Hear of the guide who is the owner by now."""
        assert self._guide is not None
        reply = self._guide.reply(now)
        self.due = self._guide.due
        if isinstance(reply, ReplyError):
            self._dismiss()
            self.refuse(reply, now)
        elif reply is not None:
            self._learn(reply, now)
            if self._state == CONSULTING:
                self._decide(now)

    def _open(self, address: Address, now: float) -> None:
        self.address, self._target = address, None
        patience = self._back_off.patience
        self._state = OPENING
        self._connection = ShardConnection(address, self._credentials, self._lookups, self._timeout, patience, now)
        self._finish_opening(now)

    def _finish_opening(self, now: float) -> None:
        assert self._connection is not None
        if self._connection.advance(now):
            self._ask(now)
            return
        self.due = self._connection.due
        if self._guide is not None:
            self._doubt_owner(self._guide, now)

    def _doubt_owner(self, guide: Guide, now: float) -> None:
        """While the owner takes its time, the guide is asked whether it still is the owner."""
        try:
            guide.ask_now_and_then(now)
            reply = guide.reply(now)
        except ConnectionFailed:
            self._dismiss()
            return
        self.due = min(self.due, guide.due)
        if reply is None or isinstance(reply, ReplyError):
            return
        self._learn(reply, now)
        owner = self._route.owner()
        if self._state == OPENING and owner is not None and owner != self.address:
            self._drop()
            self._decide(now)

    def _learn(self, rows: Any, now: float) -> None:
        """Take the guide's answer."""
        assert self._guide is not None
        try:
            self._route.learn_slots(rows, self._guide.connection.address)
        except ShardError as error:
            self._dismiss()
            self.baffle(str(error), now)

    def _ask(self, now: float, greets: bool = True) -> None:
        """Ask what is not known yet; when everything is, this is the owner."""
        assert self._connection is not None
        commands: list[tuple[Any, ...]] = []
        self._questions = []
        if greets and self._credentials is not None and self._credentials.password:
            self._questions.append("auth")
            try:
                commands.append(admission.greeting(self._credentials))
            except ShardpulseError as error:
                self.fail("password", str(error), now, slow=True)
                return
        if self._route.is_open:
            self._questions.append("slots")
            commands.append(("CLUSTER", "SLOTS"))
        if not self.tag:
            self._questions.append("layout")
            commands.append(("GET", self._route.choose_copy(self.address, self._back_off.attempts)))
        self._state = ASKING
        if commands:
            patience = self._back_off.patience if greets and self._connection.is_secured else self._timeout
            self.due = self._deadline = now + patience
            self._connection.send(b"".join([pack(command) for command in commands]))
        else:
            self._decide(now)

    def _hear(self, now: float) -> None:
        assert self._connection is not None
        for reply in self._connection.receive():
            self._answer(reply, now)
            if self._state != ASKING:
                return
        if now >= self._deadline:
            self.fail("timeout", f"shard {self.address} does not answer in time", now)

    def _answer(self, reply: Any, now: float) -> None:
        question = self._questions.pop(0)
        if isinstance(reply, ReplyError) and not (question == "layout" and str(reply).startswith("MOVED")):
            self.refuse(reply, now)
            return
        if question == "auth":
            try:
                admission.check_greeted(reply, self.address)
            except ShardpulseError as error:
                self.fail(NOT_ADMITTED if isinstance(error, AdmissionError) else "greeting", str(error), now, slow=True)
                return
        elif question == "slots":
            assert self.address is not None
            try:
                self._route.learn_slots(reply, self.address)
            except ShardError as error:
                self.baffle(str(error), now)
                return
        elif question == "layout" and not isinstance(reply, ReplyError) and not self._route.learn_layout(reply):
            problem = "no layout that this version knows: start the shards with `shardpulse shards up`"
            self.fail("layout", f"shard {self.address} holds {problem}", now)
            return
        if not self._questions:
            self._decide(now)

    def _decide(self, now: float) -> None:
        """Go to the owner of what is needed next, unless this is it."""
        asked = self._route.copy
        if not self.tag and self._route.choose_copy(self.address, self._back_off.attempts) != asked:
            if self._connection is None and self._guide is not None:
                self._return_to(self._guide, now)
            else:
                self._questions = ["layout"]  # a copy lies here: the map of slots is known by now
                self.send(pack(("GET", self._route.copy)), now)
            return
        slot, owner = self._route.slot(), self._route.owner()
        if owner is None:
            self._keep(now)
            self.fail("clusterdown", f"no shard owns slot {slot}: the cluster is being set up or a shard is down", now)
        elif self._guide is not None and owner == self._guide.connection.address and not self._guide.is_asked:
            self._return_to(self._guide, now)
        elif self._connection is None or owner != self.address:
            self._keep(now)
            self._open(owner, now)
        elif not self.tag:
            self.fail("moved", f"shard {owner} does not know that it owns slot {slot}", now)
        else:
            self._begin_sending()

    def _keep(self, now: float) -> None:
        """Let go of the connection, which has told who the owner is: it is the guide if there is none."""
        if self._connection is not None and self._guide is None:
            self._guide, self._connection = Guide(self._connection, self._timeout, now), None
        self._drop()

    def _return_to(self, guide: Guide, now: float) -> None:
        """The guide is the owner, of the layout or of the partition."""
        self._drop()
        self._connection, self._guide = guide.connection, None
        self.address = guide.connection.address
        if self.tag:
            self._begin_sending()
        else:
            self._ask(now, greets=False)

    def _begin_sending(self) -> None:
        self._dismiss()
        self._state = READY
        self.ready = True
        self.problem = self._refused
        self.generation += 1
        self._flowing = None if self.blocked else (self.fileno(), self.events(), self.generation)
