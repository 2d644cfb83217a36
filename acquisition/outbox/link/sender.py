"""Non-blocking sender to the shard that owns a host's partition.

The owner of a sender calls ``advance`` until ``ready``, then ``send`` and ``receive``. Any error ends the connection,
including MOVED and ASK, except those known to pass (``bear``): the state of frames in flight is then
unknown, and the filter's position is read before anything is sent again. After a delay the shard is searched
again (``acquisition.outbox.link.owner_search``).
"""

from __future__ import annotations

import select
from typing import Any

from acquisition import log
from acquisition.errors import TemporaryError
from acquisition.link.local_shards import Seeds
from acquisition.link.resp import Address, ReplyError, error_for
from acquisition.link.routing import redirection
from acquisition.link.trust.credentials import Credentials
from acquisition.outbox.link.connection import NOT_ADMITTED, ConnectionFailed, ShardConnection
from acquisition.outbox.link.owner_search import OwnerSearch, no_redis

LOG = log.category("probe.outbox")
_FIRST_DELAY = 0.05
#: A replica takes some seconds to take over, and then all probes should connect soon: hence short delays for
#: this number of attempts, some 8 s.
_QUICK_DELAY = 0.5
_QUICK_ATTEMPTS = 24
_MOST_DELAY = 2.0
_SLOW_DELAY = 5.0
#: A handshake waits for those of all other hosts: ten thousand of half a millisecond each are 5 s of one shard. Giving
#: up sooner would restart it at the end of the queue.
_PATIENCE = 5.0  #: in timeouts


class BackOff:
    """Delays of a host, which grow with its failures: a data center must not reconnect to a restarted shard in step or
    all at once. ``timeout`` is the longest time for an answer of a shard without
    pending handshakes, ``patience`` in seconds that for a handshake and the first answer after it."""

    def __init__(self, host: int, timeout: float) -> None:
        self.attempts = 0  #: since the last success
        self._host = host
        self.patience = _PATIENCE * timeout

    def succeed(self) -> None:
        """Make the delay after the next failure short again."""
        self.attempts = 0

    def after(self, slow: bool) -> float:
        """Seconds until the next attempt after a failure; ``slow`` if only an operator can repair it."""
        most = _QUICK_DELAY if self.attempts < _QUICK_ATTEMPTS else _MOST_DELAY
        delay = _SLOW_DELAY if slow else min(most, _FIRST_DELAY * 2.0 ** min(self.attempts, 16))
        self.attempts += 1
        return delay * (0.5 + 0.5 * self._jitter())

    def _jitter(self) -> float:
        mixed = ((self._host ^ self.attempts) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        return (mixed >> 40) / (1 << 24)


class Sender:
    """``timeout`` bounds each step of finding the owner. ``errors`` counts by kind (``moved loading
    oom noauth timeout closed refused …``); ``problem`` is why it is not ready, or why
    the last sent frames were refused, until some are accepted; "" if all is well.
    ``needs_a_person`` is whether it will not pass by itself, ``not_admitted`` whether the configuration does not permit
    contact with the shard; ``generation`` grows with every
    connection that became ready; ``due`` is when to call ``advance`` if nothing happens before."""

    def __init__(self, host: int, seeds: Seeds, credentials: Credentials | None, timeout: float) -> None:
        self.ready = False
        self.due = 0.0
        self.problem = "not connected yet"
        self._refused = ""  #: why the last sent frames were refused
        self.needs_a_person = self.not_admitted = False
        self.errors: dict[str, int] = {}
        self.generation = 0
        self._back_off = BackOff(host, timeout)
        self._search = OwnerSearch(host, seeds, credentials, timeout, self._back_off.patience)
        self._connection: ShardConnection | None = None  #: to the owner, while it is ready
        self._flowing: tuple[int, int, int] | None = None  #: value of ``waits_for`` while it is ready and not blocked

    @property
    def address(self) -> Address | None:
        """The shard it is connected to, or tries to reach, or asks."""
        return self._search.address

    @property
    def tag(self) -> str:
        """The hash tag of the host's partition, "" until the layout is known."""
        return self._search.tag

    def fileno(self) -> int:
        """The socket's descriptor, -1 if absent."""
        asked = self._connection or self._search.asked
        return asked.fileno() if asked is not None else -1

    def events(self) -> int:
        """Events to poll the descriptor for."""
        asked = self._connection or self._search.asked
        return asked.events() if asked is not None else 0

    def wait(self, seconds: float) -> None:
        """Wait until the shard can be read or written, at most ``seconds``."""
        poll = select.poll()
        if self.fileno() >= 0:
            poll.register(self.fileno(), self.events())
        poll.poll(int(seconds * 1000) + 1)

    @property
    def waits_for(self) -> tuple[int, int, int]:
        """Descriptor, events and ``generation``: for a loop that checks for changes after each service."""
        if self._flowing is not None and not self.blocked:
            return self._flowing
        return self.fileno(), self.events(), self.generation

    @property
    def blocked(self) -> bool:
        """Whether the socket has not yet accepted all sent data."""
        return self._connection is not None and self._connection.blocked

    def advance(self, now: float) -> bool:
        """Continue towards ``ready`` as far as possible without waiting; returns whether it is."""
        search = self._search
        if self.ready or (search.is_idle and now < self.due):
            return self.ready
        try:
            if search.is_idle:
                search.begin(self._back_off.attempts, now)
            found = search.advance(now)
        except ConnectionFailed as error:
            self._end(error, now)
            return False
        self.due = search.due
        if isinstance(found, ReplyError):
            self.refuse(found, now)
        elif found is not None:
            self._begin_sending(found)
        return self.ready

    def send(self, data: bytes, now: float) -> None:
        """Send, and keep for ``flush`` what the socket does not accept now. Only if not ``blocked``."""
        if self._connection is not None:
            try:
                self._connection.send(data)
            except ConnectionFailed as error:
                self._end(error, now)

    def flush(self, now: float) -> bool:
        """Send what was kept; returns whether the socket has accepted all of it."""
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
        """The shard answered; ``took``: it accepted a frame. The next failure starts with a short delay again, unless
        the last frames were refused."""
        if took and self._refused:
            self._refused = self.problem = ""
        if not self._refused:
            self._back_off.succeed()

    def refuse(self, error: ReplyError, now: float) -> None:
        """The shard answered with an error: find the owner again, at once or later."""
        word, _, rest = str(error).partition(" ")
        reason, slow = self._explained(error, word)
        self._refused = reason if self.ready and word not in ("MOVED", "ASK") else ""
        self.fail(word.lower(), reason, now, slow)
        if word == "MOVED":
            self._search.go_to(redirection(rest, self.address) if self.address else None)
            if self._back_off.attempts <= 1:
                self.due = now

    def bear(self, error: ReplyError, now: float) -> float:
        """The shard answered with an error that passes: count it, report it, stay connected; returns when to retry."""
        word = str(error).partition(" ")[0]
        self._count(word.lower())
        self._refused, self.needs_a_person = self._explained(error, word)
        if LOG.informs:
            LOG.info("shard temporarily refuses frames", shard=self.address, problem=self._refused)
        self.problem = self._refused
        return now + self._back_off.after(self.needs_a_person)

    def _explained(self, error: ReplyError, word: str) -> tuple[str, bool]:
        """Description of an error for the operator, and whether only an operator can repair it."""
        known = error_for(error, self.address)
        slow = not isinstance(known, TemporaryError) and word not in ("MOVED", "ASK")
        return f"shard {self.address} is out of memory and refuses frames ({error})" if word == "OOM" else str(
            known
        ), slow

    def _count(self, kind: str) -> None:
        self.errors[kind] = self.errors.get(kind, 0) + 1

    def baffle(self, reply: str, now: float) -> None:
        """Handle a reply that no shard would send."""
        self._end(no_redis(self.address, reply), now)

    def fail(self, kind: str, problem: str, now: float, slow: bool = False) -> None:
        """Close the connection, count, and try again after a delay; ``slow`` if only an operator can repair it."""
        # a living shard ends connections when passwords change; a dead one refuses the next, which costs nothing
        hung_up = self.ready and kind == "closed"
        self._drop()
        self._search.end(stays_guided=not slow, target=self.address if hung_up else None)
        self._count(kind)
        self.problem, self.needs_a_person, self.not_admitted = problem, slow, kind == NOT_ADMITTED
        self.due = now + self._back_off.after(slow)
        if LOG.informs:
            LOG.info("shard lost", kind=kind, problem=problem, retry_seconds=self.due - now)

    def close(self) -> None:
        """Close all connections; ``advance`` makes another one."""
        self._drop()
        self._search.close()

    def _end(self, error: ConnectionFailed, now: float) -> None:
        self.fail(error.kind, str(error), now, error.needs_a_person)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.ready, self._flowing = False, None

    def _begin_sending(self, connection: ShardConnection) -> None:
        self._connection = connection
        self.ready = True
        self.problem = self._refused
        self.generation += 1
        self._flowing = None if self.blocked else (self.fileno(), self.events(), self.generation)
        if LOG.informs:
            LOG.info("shard found", shard=self.address, partition=self.tag, connection=self.generation)
