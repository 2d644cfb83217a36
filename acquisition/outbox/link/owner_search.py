"""Non-blocking search for the shard that owns a host's partition.

::

    IDLE ──▶ OPENING ──▶ ASKING (layout, slots) ──▶ OPENING (the owner) ──▶ FOUND
      └──▶ CONSULTING (the guide) ──────────────────────▲

A shard that has answered and names another one as the owner stays connected as the *guide* until the owner is
reached: while the owner is dead or slow, the guide is asked for the current one. So a failover takes a
handshake with a living shard, not one per attempt.
"""

from __future__ import annotations

from typing import Any

from acquisition.errors import AdmissionError, ShardError, ShardpulseError
from acquisition.link.local_shards import Seeds, look
from acquisition.link.resp import Address, ReplyError, pack
from acquisition.link.trust import admission
from acquisition.link.trust.credentials import Credentials
from acquisition.outbox.link.connection import NOT_ADMITTED, ConnectionFailed, Lookup, ShardConnection
from acquisition.outbox.link.route import Route

_QUESTION = pack(("CLUSTER", "SLOTS"))
_LIFE = 6.0  #: seconds; a failover takes less, and a guide cut off from the others does not know of it
_EVERY = 1.0  #: seconds between two questions while the owner is slow
_LOOK = 0.05


class Guide:
    """A shard that is asked for owners while the owner is dead or slow: a connection that is kept, without waiting.
    ``connection`` is open, and its user is logged in. ``due`` is when to call ``reply``; raises
    ConnectionFailed, as ``reply`` does."""

    def __init__(self, connection: ShardConnection, timeout: float, now: float) -> None:
        self.connection = connection
        self.due = now + _EVERY
        self._until = now + _LIFE
        self._timeout = timeout
        self._deadline = 0.0  #: for the expected answer, 0: none expected

    def is_over(self, now: float) -> bool:
        """Whether another one should be asked."""
        return now >= self._until

    @property
    def is_asked(self) -> bool:
        """Whether an answer is pending."""
        return bool(self._deadline)

    def ask(self, now: float) -> None:
        """Ask for the slot map, unless that is pending."""
        if not self._deadline:
            self._deadline = now + self._timeout
            self.connection.send(_QUESTION)
        self.due = now + _LOOK

    def ask_now_and_then(self, now: float) -> None:
        """As ``ask``, once a second."""
        if now >= self.due:
            self.ask(now)

    def reply(self, now: float) -> Any:
        """The answer, an error as a value; None if absent."""
        if not self._deadline:
            return None
        for reply in self.connection.receive():
            self._deadline, self.due = 0.0, now + _EVERY
            return reply
        if now >= self._deadline:
            self.connection.fail("timeout", f"shard {self.connection.address} timed out")
        return None


IDLE, CONSULTING, OPENING, ASKING, FOUND = range(5)


class OwnerSearch:
    """``timeout`` bounds each step, ``patience`` a handshake, for which many may be waiting. ``address`` is the shard
    being asked, or the one found; ``due`` is when to call ``advance`` if nothing happens before; ``is_idle``
    is whether nothing is in progress. ``begin`` and ``advance`` raise ConnectionFailed, to be followed by ``end``."""

    def __init__(
        self, host: int, seeds: Seeds, credentials: Credentials | None, timeout: float, patience: float
    ) -> None:
        self.address: Address | None = None
        self.due = 0.0
        self._seeds = seeds
        self._given = self._credentials = credentials
        self._timeout = timeout
        self._patience = patience
        self._attempt = 0
        self._state = IDLE
        self._route = Route(host)
        self._target: Address | None = None  #: named by the last shard
        self._failed: Address | None = None  #: the shard of the newest failure
        self._deadline = 0.0
        self._lookups: dict[Address, Lookup] = {}
        self._connection: ShardConnection | None = None
        self._guide: Guide | None = None
        self._questions: list[str] = []

    @property
    def tag(self) -> str:
        """The hash tag of the host's partition, "" until the layout is known."""
        return self._route.tag

    @property
    def is_idle(self) -> bool:
        """Whether ``begin`` has to precede ``advance``."""
        return self._state == IDLE

    @property
    def asked(self) -> ShardConnection | None:
        """Connection on which an answer is expected."""
        return self._guide.connection if self._state == CONSULTING and self._guide is not None else self._connection

    def begin(self, attempt: int, now: float) -> None:
        """Ask the guide again, or the shard named by the last one, else any of the shards: local ones may have been
        replaced. ``attempt`` counts from the last success."""
        self._attempt = attempt
        before = self._credentials
        try:
            found = look(self._seeds)
            self._credentials = found.credentials or self._given
            self._route.begin(found)
        except ShardpulseError as error:
            raise ConnectionFailed("absent", str(error)) from error
        if self._guide is not None and (self._guide.is_over(now) or before != self._credentials):
            self._dismiss()
        if self._guide is not None:
            self.address = self._guide.connection.address
            self._state = CONSULTING
            self._guide.ask(now)
        else:
            self._open(self._target or self._route.candidate(attempt, self._failed), now)

    def advance(self, now: float) -> ShardConnection | ReplyError | None:
        """Continue as far as possible without waiting: the connection to the owner, with its user logged in; the
        error with which a shard refused a question; None while there is neither."""
        refused = None
        if self._state == CONSULTING:
            refused = self._consult(now)
        if self._state == OPENING:
            self._finish_opening(now)
        if self._state == ASKING:
            refused = self._hear(now)
        if self._state == FOUND:
            found, self._connection = self._connection, None
            self._dismiss()
            self._state = IDLE
            return found
        return refused

    def end(self, *, stays_guided: bool, target: Address | None) -> None:
        """Something has failed: the next search goes to ``target``, or elsewhere, and may ask the guide if it is still
        trusted."""
        self._drop()
        if not stays_guided or (self._guide is not None and self._guide.connection.fileno() < 0):
            self._dismiss()
        self._target, self._failed = target, self.address
        self._route.forget_owners()

    def go_to(self, target: Address | None) -> None:
        """Start the next search there; None: at any of the shards."""
        self._target = target

    def close(self) -> None:
        """Close all connections; ``begin`` makes another one."""
        self._drop()
        self._dismiss()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._state = IDLE

    def _dismiss(self) -> None:
        if self._guide is not None:
            self._guide.connection.close()
            self._guide = None

    def _consult(self, now: float) -> ReplyError | None:
        """Ask the guide for the current owner."""
        assert self._guide is not None
        reply = self._guide.reply(now)
        self.due = self._guide.due
        if isinstance(reply, ReplyError):
            self._dismiss()
            return reply
        if reply is not None:
            self._learn(reply)
            self._decide(now)
        return None

    def _open(self, address: Address, now: float) -> None:
        self.address, self._target = address, None
        self._state = OPENING
        self._connection = ShardConnection(
            address, self._credentials, self._lookups, self._timeout, self._patience, now
        )  # fmt: skip
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
        """Ask the guide, while the owner is slow, whether it still is the owner."""
        try:
            guide.ask_now_and_then(now)
            reply = guide.reply(now)
        except ConnectionFailed:
            self._dismiss()
            return
        self.due = min(self.due, guide.due)
        if reply is None or isinstance(reply, ReplyError):
            return
        self._learn(reply)
        owner = self._route.owner()
        if owner is not None and owner != self.address:
            self._drop()
            self._decide(now)

    def _learn(self, rows: Any) -> None:
        """Process the guide's answer."""
        assert self._guide is not None
        try:
            self._route.learn_slots(rows, self._guide.connection.address)
        except ShardError as error:
            self._dismiss()
            raise no_redis(self.address, str(error)) from error

    def _ask(self, now: float, greets: bool = True) -> None:
        """Ask for what is not known yet; if nothing is missing, this is the owner."""
        assert self._connection is not None
        commands: list[tuple[Any, ...]] = []
        self._questions = []
        if greets and self._credentials is not None and self._credentials.password:
            self._questions.append("auth")
            try:
                commands.append(admission.greeting(self._credentials))
            except ShardpulseError as error:
                raise ConnectionFailed("password", str(error), needs_a_person=True) from error
        if self._route.is_open:
            self._questions.append("slots")
            commands.append(("CLUSTER", "SLOTS"))
        if not self.tag:
            self._questions.append("layout")
            commands.append(("GET", self._route.choose_copy(self.address, self._attempt)))
        self._state = ASKING
        if commands:
            patience = self._patience if greets and self._connection.is_secured else self._timeout
            self.due = self._deadline = now + patience
            self._connection.send(b"".join([pack(command) for command in commands]))
        else:
            self._decide(now)

    def _hear(self, now: float) -> ReplyError | None:
        assert self._connection is not None
        for reply in self._connection.receive():
            question = self._questions.pop(0)
            if isinstance(reply, ReplyError) and not (question == "layout" and str(reply).startswith("MOVED")):
                return reply
            self._answer(question, reply)
            if not self._questions:
                self._decide(now)
            if self._state != ASKING:
                return None
        if now >= self._deadline:
            raise ConnectionFailed("timeout", f"shard {self.address} timed out")
        return None

    def _answer(self, question: str, reply: Any) -> None:
        """Process the answer to a question."""
        if question == "auth":
            try:
                admission.check_greeted(reply, self.address)
            except ShardpulseError as error:
                kind = NOT_ADMITTED if isinstance(error, AdmissionError) else "greeting"
                raise ConnectionFailed(kind, str(error), needs_a_person=True) from error
        elif question == "slots":
            assert self.address is not None
            try:
                self._route.learn_slots(reply, self.address)
            except ShardError as error:
                raise no_redis(self.address, str(error)) from error
        elif question == "layout" and not isinstance(reply, ReplyError) and not self._route.learn_layout(reply):
            problem = "no layout known to this version: start the shards with `shardpulse shards up`"
            raise ConnectionFailed("layout", f"shard {self.address} holds {problem}")

    def _decide(self, now: float) -> None:
        """Go to the owner of what is needed next, unless this is it."""
        asked = self._route.copy
        if not self.tag and self._route.choose_copy(self.address, self._attempt) != asked:
            if self._connection is not None:
                self._questions = ["layout"]  # a copy is here: the slot map is known by now
                self._connection.send(pack(("GET", self._route.copy)))
            elif self._guide is not None:
                self._return_to(self._guide, now)
            return
        slot, owner = self._route.slot(), self._route.owner()
        if owner is None:
            self._keep(now)
            problem = f"no shard owns slot {slot}: the cluster is being set up or a shard is down"
            raise ConnectionFailed("clusterdown", problem)
        if self._guide is not None and owner == self._guide.connection.address and not self._guide.is_asked:
            self._return_to(self._guide, now)
        elif self._connection is None or owner != self.address:
            self._keep(now)
            self._open(owner, now)
        elif not self.tag:
            raise ConnectionFailed("moved", f"shard {owner} does not report that it owns slot {slot}")
        else:
            self._state = FOUND

    def _keep(self, now: float) -> None:
        """Release the connection, which has named the owner: it becomes the guide if there is no other."""
        if self._connection is not None and self._guide is None:
            self._guide, self._connection = Guide(self._connection, self._timeout, now), None
        self._drop()

    def _return_to(self, guide: Guide, now: float) -> None:
        """The guide is the owner, of the layout or of the partition."""
        self._drop()
        self._connection, self._guide = guide.connection, None
        self.address = guide.connection.address
        if self.tag:
            self._state = FOUND
        else:
            self._ask(now, greets=False)


def no_redis(address: Address | None, reply: str) -> ConnectionFailed:
    """Error for a server whose answer is not that of a shard."""
    return ConnectionFailed("protocol", f"{address} is not a Redis server: {reply}", needs_a_person=True)
