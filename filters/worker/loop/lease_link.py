"""Lease connection of a worker to one shard, non-blocking."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from acquisition.errors import ShardError, ShardpulseError
from acquisition.link.resp import Address, Connection, raise_for
from filters.leases.scripts import SCRIPTS
from filters.runtime.background_jobs import BackgroundJobs, Outcome
from filters.worker.loop.poller import Poller

_RETRY = 0.2


class Answer(NamedTuple):
    """Answer of a shard about a partition; ``asked``: the request."""

    number: int
    asked: str
    reply: Any


class Link:
    """``answered`` is called with answers, ``failed`` with the reason for a lost connection.

    ``due``: time of the next renewal; ``asked``: time of the last request (CLOCK_MONOTONIC).
    """

    def __init__(
        self,
        address: Address,
        answered: Callable[[list[Answer]], None],
        failed: Callable[[Address, ShardpulseError], None],
        connect: Callable[[Address], Connection],
        background: BackgroundJobs,
        poller: Poller,
    ) -> None:
        self.address = address
        self.due = 0.0
        self.asked = 0.0
        self._connect = connect
        self._background = background
        self._poller = poller
        self._answered = answered
        self._failed = failed
        self._connection: Connection | None = None
        self._expected: deque[tuple[int, str]] = deque()
        self._ticket: object = None
        self._again = 0.0

    @property
    def connected(self) -> bool:
        """Whether commands can be sent."""
        return self._connection is not None

    @property
    def waiting(self) -> bool:
        """Whether answers are pending."""
        return bool(self._expected)

    def renew_at(self, due: float) -> None:
        """Set the time of the next renewal."""
        self.due = due

    def hasten(self, due: float) -> None:
        """Renew at that time at the latest."""
        self.due = min(self.due, due)

    def connect(self, now: float) -> None:
        """Start connecting if not connected."""
        if self._connection is None and self._ticket is None and now >= self._again:
            ticket = self._ticket = object()

            def done(outcome: Outcome) -> None:
                if self._ticket is ticket and self._background.is_open:
                    self._connected(outcome)
                elif isinstance(outcome, Connection):
                    outcome.close()

            self._background.submit(("leases", self.address), self._open, done)

    def send(self, asked: str, commands: Sequence[tuple[int, bytes]]) -> None:
        """Send (partition, packed command) pairs in one write."""
        if self._connection is None or not commands:
            return
        self.asked = time.monotonic()
        self._expected.extend((number, asked) for number, _ in commands)
        try:
            self._connection.send(b"".join([command for _, command in commands]))
        except ShardError as error:
            self._fail(error)

    def check_silence(self, now: float, longest: float) -> None:
        """Close a connection with overdue answers."""
        if self._expected and now - self.asked > longest:
            self._fail(ShardError(f"shard {self.address} timed out"))

    def close(self) -> None:
        """Close the connection; ``connect`` opens a new one."""
        self._ticket = None
        self._expected.clear()
        if self._connection is not None:
            self._poller.remove(self._connection.fileno())
            self._connection.close()
            self._connection = None

    def drain(self, seconds: float) -> None:
        """Wait at most ``seconds`` for pending answers, and close."""
        if self._connection is not None:
            self._connection.settimeout(max(0.01, seconds))
            try:
                for _ in self._expected:
                    self._connection.receive()
            except ShardError:  # it is gone or hangs: its leases expire
                pass
        self.close()

    def _open(self) -> Connection:
        connection = self._connect(self.address)
        try:
            for reply in connection.pipeline([("SCRIPT", "LOAD", script) for script in SCRIPTS]):
                raise_for(reply, self.address)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connected(self, outcome: Outcome) -> None:
        self._ticket = None
        if isinstance(outcome, ShardpulseError):
            self._fail(outcome)
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            self._connection = outcome
            self.due = 0.0
            self._poller.watch(outcome.fileno(), self._receive)

    def _receive(self) -> None:
        if self._connection is None:
            return
        try:
            replies = self._connection.poll()
        except ShardError as error:
            self._fail(error)
            return
        self._answered([Answer(*self._expected.popleft(), reply) for reply in replies])

    def _fail(self, error: ShardpulseError) -> None:
        self.close()
        self._again = time.monotonic() + _RETRY
        self._failed(self.address, error)
