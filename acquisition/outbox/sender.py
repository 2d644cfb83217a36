"""A connection to the shard that owns a host's partition, which never waits.

::

    BACK_OFF ──▶ CONNECTING ──▶ ASKING (layout, slots) ──▶ CONNECTING (the owner) ──▶ READY
        ▲             │              │                                                  │
        └─────────────┴──────────────┴── any error, MOVED, ASK, no answer in time ──────┘

A name is looked up in a thread (LOOKING_UP, before CONNECTING); with TLS a connection is SECURING before it is ASKING.
The owner of this calls
``advance`` until ``ready``, then ``send`` and ``receive``. Any error ends the connection: what
was in flight is then unknown, and the filter's position is asked for before anything is sent
again. Retries back off exponentially with a jitter that differs from host to host, so that a
data center does not knock at a restarted shard in step.
"""

from __future__ import annotations

import _socket
import select
from typing import TYPE_CHECKING, Any

import hiredis

from acquisition.errors import ShardError, ShardpulseError, TemporaryError
from acquisition.link import admission
from acquisition.link.credentials import Credentials
from acquisition.link.local_shards import Seeds, look
from acquisition.link.resp import Address, ReplyError, error_for, pack
from acquisition.link.slots import redirection
from acquisition.outbox.lookup import Lookup, Target, numeric
from acquisition.outbox.nonblocking_connect import begin_connect, is_connected
from acquisition.outbox.route import Route
from acquisition.wire import keys

if TYPE_CHECKING:
    from acquisition.link.tls import Secured

BACK_OFF, LOOKING_UP, CONNECTING, SECURING, ASKING, READY = range(6)
_FIRST_DELAY = 0.05
#: A replica takes some seconds to take over, and then every probe is to be there soon: hence short delays for
#: so many attempts, some 8 s.
_QUICK_DELAY = 0.5
_QUICK_ATTEMPTS = 24
_MOST_DELAY = 2.0
_LOOKUP_POLL = 0.02
_SLOW_DELAY = 5.0
_MOST_BYTES = 1 << 14  #: of one read


class Sender:
    """``timeout`` bounds each step of finding the owner. ``errors`` counts by kind (``moved loading
    oom noauth timeout closed refused …``); ``problem`` is what keeps it from being ready, or why
    what was sent last was refused, until something is taken; "" when all is well.
    ``needs_a_person`` is whether it does not pass by itself; ``generation`` grows with every
    connection that became ready; ``due`` is when ``advance`` wants to be called if nothing happens before."""

    def __init__(self, host: int, seeds: Seeds, credentials: Credentials | None, timeout: float) -> None:
        self.ready = False
        self.due = 0.0
        self.problem = "not connected yet"
        self._refused = ""  #: why it took nothing of what was sent last
        self.needs_a_person = False
        self.errors: dict[str, int] = {}
        self.generation = 0
        self.address: Address | None = None
        self._seeds = seeds
        self._route = Route(host)
        self._given = self._credentials = credentials
        self._timeout = timeout
        self._state = BACK_OFF
        self._target: Address | None = None
        self._attempt = 0
        self._deadline = 0.0
        self._lookups: dict[Address, Lookup] = {}
        self._socket: _socket.socket | Secured | None = None
        self._wanted = select.POLLOUT  #: what a connection waits for that is not there yet
        self._reader = hiredis.Reader()
        self._unsent: bytes | memoryview = b""
        self._questions: list[str] = []

    @property
    def tag(self) -> str:
        """The hash tag of the host's partition, "" until the layout is known."""
        return self._route.tag

    def fileno(self) -> int:
        """The socket's descriptor, -1 when there is none."""
        return self._socket.fileno() if self._socket is not None else -1

    def events(self) -> int:
        """What to poll the descriptor for."""
        if self._socket is None:
            return 0
        if self._state in (CONNECTING, SECURING):
            return self._wanted
        return select.POLLIN | select.POLLOUT if self._unsent else select.POLLIN

    @property
    def blocked(self) -> bool:
        """Whether the socket has not yet taken all that was sent."""
        return bool(self._unsent)

    def advance(self, now: float) -> bool:
        """Go on towards ``ready`` as far as that is possible without waiting; returns whether it is."""
        if self._state == BACK_OFF:
            if now < self.due:
                return False
            self._begin(now)
        elif self._state == LOOKING_UP:
            self._finish_lookup(now)
        if self._state == CONNECTING:
            self._finish_connect(now)
        if self._state == SECURING:
            self._finish_handshake(now)
        if self._state == ASKING:
            for reply in self.receive(now):
                self._answer(reply, now)
                if self._state != ASKING:
                    break
        if self._state in (LOOKING_UP, CONNECTING, SECURING, ASKING) and now >= self._deadline:
            told = admission.NO_TLS if self._state == SECURING else "does not answer in time"
            self.fail("timeout", f"shard {self.address} {told}", now)
        return self.ready

    def send(self, data: bytes, now: float) -> None:
        """Send, or keep for ``flush`` what the socket does not take now. Only when not ``blocked``."""
        self._unsent = data
        self.flush(now)

    def flush(self, now: float) -> bool:
        """Send what was kept; returns whether the socket has taken all of it."""
        if self._socket is None:
            return False
        data = self._unsent
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            return False
        except OSError as error:
            self._fail_os(error, now)
            return False
        self._unsent = b"" if sent == len(data) else memoryview(data)[sent:]
        return sent == len(data)

    def receive(self, now: float) -> list[Any]:
        """The replies that have arrived, errors as values; without waiting."""
        if self._socket is None:
            return []
        try:
            data = self._socket.recv(_MOST_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            self._fail_os(error, now)
            return []
        if not data:
            self.fail("closed", f"shard {self.address} closed the connection{self._perhaps()}", now)
            return []
        reader = self._reader
        try:
            reader.feed(data)
            replies = []
            reply = reader.gets()
            while reply is not False:
                replies.append(reply)
                reply = reader.gets()
        except hiredis.ProtocolError as error:
            self.baffle(str(error), now)
            return []
        return replies

    def succeed(self, took: bool) -> None:
        """The shard answered; ``took``: it has taken a frame. The next failure starts with a short delay again."""
        self._attempt = 0
        if took and self._refused:
            self._refused = self.problem = ""

    def refuse(self, error: ReplyError, now: float) -> None:
        """The shard answered with an error: find the owner again, at once or later."""
        word, _, rest = str(error).partition(" ")
        known = error_for(error, self.address)
        slow = not isinstance(known, TemporaryError) and word not in ("MOVED", "ASK")
        told = f"shard {self.address} is full and takes nothing ({error})" if word == "OOM" else str(known)
        self._refused = told if self.ready and word not in ("MOVED", "ASK") else ""
        self.fail(word.lower(), told, now, slow)
        if word == "MOVED":
            self._target = redirection(rest, self.address) if self.address else None
            if self._attempt <= 1:
                self.due = now

    def baffle(self, reply: str, now: float) -> None:
        """The shard answered with something that no shard answers."""
        self.fail("protocol", f"{self.address} is no Redis: {reply}", now, slow=True)

    def fail(self, kind: str, problem: str, now: float, slow: bool = False) -> None:
        """Close, count, and try again after a delay; ``slow`` when only a person can repair it."""
        self.close()
        self.errors[kind] = self.errors.get(kind, 0) + 1
        self.problem, self.needs_a_person = problem, slow
        self._target = None
        self._route.forget_owners()
        most = _QUICK_DELAY if self._attempt < _QUICK_ATTEMPTS else _MOST_DELAY
        delay = _SLOW_DELAY if slow else min(most, _FIRST_DELAY * 2.0 ** min(self._attempt, 16))
        self._attempt += 1
        self.due = now + delay * (0.5 + 0.5 * self._jitter())

    def close(self) -> None:
        """Close the connection; ``advance`` makes another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self.ready = False
        self._state = BACK_OFF
        self._unsent = b""

    def _jitter(self) -> float:
        mixed = ((self._route.host ^ self._attempt) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        return (mixed >> 40) / (1 << 24)

    def _begin(self, now: float) -> None:
        """Go where the last shard pointed to, else to any of the shards: local ones may be other ones by now."""
        try:
            found = look(self._seeds)
            self._credentials = found.credentials or self._given
            self._route.begin(found)
        except ShardpulseError as error:
            self.fail("absent", str(error), now)
        else:
            self._connect(self._target or self._route.candidate(self._attempt), now)

    def _connect(self, address: Address, now: float) -> None:
        self.address = address
        self._target = None
        self._reader = hiredis.Reader()
        self._deadline = now + self._timeout
        target = numeric(address)
        if target is not None:
            self._open(target, now)
            return
        self._state = LOOKING_UP
        if address not in self._lookups:  # one that takes long is waited for again, not started again
            self._lookups[address] = Lookup(address)
        self._finish_lookup(now)

    def _finish_lookup(self, now: float) -> None:
        assert self.address is not None
        found = self._lookups[self.address].found
        if found is None:
            self.due = min(now + _LOOKUP_POLL, self._deadline)
        else:
            del self._lookups[self.address]
            if isinstance(found, OSError):
                self.fail("lookup", f"shard {self.address} cannot be reached: {found.strerror or found}", now)
            else:
                self._open(found, now)

    def _open(self, target: Target, now: float) -> None:
        self.due = self._deadline
        self._wanted = select.POLLOUT
        try:
            self._socket = begin_connect(target)
        except OSError as error:
            self._fail_os(error, now)
        else:
            self._state = CONNECTING

    def _finish_connect(self, now: float) -> None:
        plain, known = self._socket, self._credentials
        assert isinstance(plain, _socket.socket)
        try:
            if not is_connected(plain):
                return
            admission.check(plain, known, self.address)
        except OSError as error:
            self._fail_os(error, now)
        except ShardpulseError as error:
            self.fail("stranger", str(error), now, slow=True)
        else:
            if known is not None and known.authority:
                self._secure(plain, known.authority, now)
            else:
                self._ask(now)

    def _secure(self, plain: _socket.socket, authority: str, now: float) -> None:
        """Begin the handshake: of TLS, with the name by which the shard was called."""
        from acquisition.link import tls  # loads OpenSSL

        assert self.address is not None
        self.due = self._deadline = now + self._timeout
        try:
            self._socket = tls.Secured(plain, authority, self.address.host)
        except ShardpulseError as error:
            self.fail("tls", str(error), now, slow=True)
        else:
            self._state = SECURING

    def _finish_handshake(self, now: float) -> None:
        from acquisition.link import tls

        made = self._socket
        assert isinstance(made, tls.Secured)
        assert self._credentials is not None
        assert self.address is not None
        try:
            self._wanted = made.handshake()
        except OSError as error:
            why = tls.told(error, self.address.host, self._credentials.authority)
            self.fail("tls", f"shard {self.address} {why}", now, slow=tls.needs_a_person(error))
        else:
            if not self._wanted:
                self._ask(now)

    def _ask(self, now: float) -> None:
        """Ask what is not known yet; when everything is, this is the owner."""
        commands: list[tuple[Any, ...]] = []
        self._questions = []
        if self._credentials is not None and self._credentials.password:
            self._questions.append("auth")
            commands.append(admission.greeting(self._credentials))
        if self._route.is_open:
            self._questions.append("slots")
            commands.append(("CLUSTER", "SLOTS"))
        if not self.tag:
            self._questions.append("layout")
            commands.append(("GET", keys.LAYOUT))
        self._state = ASKING
        if commands:
            self.due = self._deadline = now + self._timeout
            self.send(b"".join([pack(command) for command in commands]), now)
        else:
            self._decide(now)

    def _answer(self, reply: Any, now: float) -> None:
        question = self._questions.pop(0)
        if isinstance(reply, ReplyError) and not (question == "layout" and str(reply).startswith("MOVED")):
            self.refuse(reply, now)
            return
        if question == "auth":
            try:
                admission.check_greeted(reply, self.address)
            except ShardpulseError as error:
                self.fail("old", str(error), now, slow=True)
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
        slot, owner = self._route.slot(), self._route.owner()
        if owner is None:
            self.fail("clusterdown", f"no shard owns slot {slot}: the cluster is being set up or a shard is down", now)
        elif owner != self.address:
            self.close()
            self._connect(owner, now)
        elif not self.tag:
            self.fail("moved", f"shard {owner} does not know that it owns slot {slot}", now)
        else:
            self._state = READY
            self.ready = True
            self.problem = self._refused
            self.generation += 1

    def _perhaps(self) -> str:
        """What may be the reason for an end before the first answer."""
        first = self._state == ASKING and not (self._credentials is not None and self._credentials.authority)
        return admission.PERHAPS_TLS if first else ""

    def _fail_os(self, error: OSError, now: float) -> None:
        kind = "refused" if isinstance(error, ConnectionRefusedError) else "closed"
        why = f"{error.strerror or error}{self._perhaps()}"
        self.fail(kind, f"shard {self.address} cannot be reached: {why}", now)
