"""Channel: a smoothed partition's connection, its state and its next action.

A channel is loading (``begin_loading`` to ``adopt``), reading (``read`` to the answer from ``receive``), committing,
or idle until ``due``. Only its own commands change it.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from acquisition import log
from acquisition.errors import ShardError, ShardpulseError
from acquisition.link.resp import MOST_PIECES, Address, Connection, error_for
from acquisition.wire import position
from acquisition.wire.seen import Seen
from filters.worker.partitions.batch import Batch
from filters.worker.partitions.partition import Partition

LOG = log.category("filter.worker")
BLOCK_SECONDS = 1.0  #: duration for which a read waits for entries
_COMMIT, _TRIM, _READ = "commit", "trim", "read"
_FULL_SECONDS = 10.0
_MOST_DEAF = 1.0  #: a partition that lingers longer is polled meanwhile
_LONGEST_SILENCE = 3.0  #: longer than a shard may take to answer a read with a wait of one second
_AVERAGED = 0.5
_TURNS = 8
_GATHERS = 2.0  #: minimum of expected frames for which a partition lingers


Piece = bytes | memoryview


class Overtaken(ShardpulseError):
    """The state in memory is not the one in the shard: it must be loaded again."""


class Channel:
    """``partition`` is replaced whenever its state is loaded.

    ``due``: time (CLOCK_MONOTONIC) to load or to read, None while a reply is pending; ``asked``: time of
    the last request to the shard or reply from it; ``leaving``: the partition is to be released as
    soon as no commit is in progress.
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.due: float | None = 0.0
        self.asked = 0.0
        self.leaving = False
        self._deaf = False  #: whether replies are left unread for now
        self._connection: Connection | None = None
        self._outgoing: Outgoing | None = None
        self._loading: Address | None = None  #: the shard from which its state is being loaded
        self._ticket: object = None  #: of the pending load; outcomes of others are too late
        self._expected: deque[tuple[str, int]] = deque()  #: requests and their numbers of replies
        self._replies: list[Any] = []
        self._full_until = 0.0
        self._known: dict[int, Seen] = {}  #: hosts that it had before its shard came back empty
        self._arrivals = Arrivals(time.monotonic())

    @property
    def connected(self) -> bool:
        """Whether its state is loaded and its shard can be reached."""
        return self._connection is not None

    @property
    def address(self) -> Address | None:
        """The shard that it is connected to or being loaded from."""
        return self._loading if self._connection is None else self._connection.address

    @property
    def committing(self) -> bool:
        """Whether the reply to a commit is pending."""
        return any(kind is _COMMIT for kind, _ in self._expected)

    def fileno(self) -> int:
        """Descriptor of the connection, for poll."""
        return self._open().fileno()

    @property
    def events(self) -> int:
        """Events to poll for, after each call of a method; the end of the connection is noticed in any
        case."""
        return (0 if self._deaf else select.POLLIN) | (select.POLLOUT if self._outgoing else 0)

    def leave(self, leaving: bool = True) -> None:
        """Mark the partition for release, or cancel that."""
        self.leaving = leaving
        self._deaf = self._deaf and not leaving

    def postpone(self, due: float) -> None:
        """Try again at ``due``."""
        self.due = due

    # ---------------------------------------------------------------- loading

    def begin_loading(self, address: Address) -> object:
        """Wait for a state from this shard; returns a ticket for ``awaits``."""
        self.due, self._loading, self._ticket = None, address, object()
        return self._ticket

    def awaits(self, ticket: object) -> bool:
        """Whether this load is the pending one."""
        return self._ticket is ticket

    def adopt(self, partition: Partition, connection: Connection) -> None:
        """Continue with a state loaded over this connection."""
        if not partition.commit_id:  # the shard has come back empty
            partition.miss(self._known.values())
        self._known = {}
        self._begin_anew(partition, connection)
        self.due = 0.0

    def abandon(self, empty: Partition, due: float | None) -> None:
        """Close the connection, discard pending replies and the state, and load at ``due`` (None: never)."""
        if self._connection is not None:
            self._connection.close()
            self._known = self.partition.sets.known()
        self._begin_anew(empty, None)
        self.due = due

    def _begin_anew(self, partition: Partition, connection: Connection | None) -> None:
        self.partition, self._connection = partition, connection
        self._outgoing = None
        if connection is not None:
            connection.settimeout(0.0)
            self._outgoing = Outgoing(connection)
        self._ticket = self._loading = None
        self._deaf = False
        self._expected.clear()
        self._replies = []

    # ---------------------------------------------------------------- reading and committing

    def read(self) -> None:
        """Request entries. Raises ShardError."""
        self.asked = time.monotonic()
        self.due = None
        self._deaf = False
        self._expected.append((_READ, 3))
        self._send([self.partition.stream.read_command(BLOCK_SECONDS)])

    def receive(self) -> list[Any] | None:
        """Process received data: returns the entries of an answered read, [] if none came in time; None while the
        answer is pending.

        Raises Overtaken and errors returned by the shard.
        """
        self._replies += self._open().poll()
        self.asked = time.monotonic()
        stream = self.partition.stream
        entries: list[Any] | None = None
        while self._expected and len(self._replies) >= self._expected[0][1]:
            kind, count = self._expected.popleft()
            replies, self._replies = self._replies[:count], self._replies[count:]
            self._check(kind, replies)
            if kind is _TRIM:
                stream.retention.apply_reader_claims(*replies[-2:])
            if kind is _READ:
                entries = stream.entries_of(replies[2])
                self._arrivals.note(len(entries), self.asked)
                if LOG.debugs and entries:
                    LOG.debug("read", partition=self.partition.number, entries=len(entries), more=stream.has_more)
        return entries

    def commit(self, batch: Batch, fair_share: float, longest: float) -> None:
        """Send the commit of a batch, and the next read, unless the channel lingers, which it does for ``longest``
        seconds if frames gather in that time and nothing more is waiting already.

        ``fair_share`` is published with it, see Partition.commit. Raises ShardError.
        """
        stream = self.partition.stream
        linger = 0.0 if stream.has_more else self._arrivals.worth(longest)
        # its reply comes with the next read's: one wake-up instead of two
        self._deaf = 0.0 < linger <= _MOST_DEAF and not self.leaving
        now = time.monotonic()
        pieces, replies = self.partition.commit(batch, fair_share, full=now < self._full_until)
        self._expected.append((_COMMIT, replies))
        if LOG.debugs:
            LOG.debug("commits", partition=self.partition.number, cursor=stream.cursor, linger_seconds=linger)
        trim = stream.retention.trim_commands(time.time())
        if trim:
            pieces += trim
            self._expected.append((_TRIM, len(trim) + 1))
        if linger:
            self.due = together(now, linger, self.partition.number)
        else:
            self.due = None
            pieces.append(stream.read_command(BLOCK_SECONDS))
            self._expected.append((_READ, 3))
        self._send(pieces)

    def _send(self, pieces: list[bytes]) -> None:
        assert self._outgoing is not None
        self._outgoing.put(pieces)

    def go_on_sending(self) -> None:
        """Send more of the pending data to the shard. Raises ShardError."""
        if self._outgoing is not None and self._outgoing.go_on():
            self.asked = time.monotonic()

    def _open(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def _check(self, kind: str, replies: list[Any]) -> None:
        """Raise the shard's error, or Overtaken if another worker has committed."""
        for reply in (*replies, *(replies[-1] or ())) if kind is _COMMIT and isinstance(replies[-1], list) else replies:
            if isinstance(reply, Exception):
                if str(reply).startswith("OOM"):
                    self._full_until = self.asked + _FULL_SECONDS
                raise error_for(reply, self._open().address)
        if kind is _COMMIT and replies[-1] is None:
            raise Overtaken("another worker committed")
        if kind is _READ and position.id_of(replies[1]) != self.partition.commit_id:
            raise Overtaken("the shard has a different commit")

    # ---------------------------------------------------------------- shards that hang

    def check_silence(self, now: float) -> None:
        """Raise ShardError if the shard no longer answers, not even with an empty read."""
        if self._connection is not None and self._expected and now - self.asked > _LONGEST_SILENCE:
            raise ShardError(f"shard {self._connection.address} timed out")

    def excuse_silence(self, now: float) -> None:
        """Note that the worker itself did not poll until ``now``."""
        self.asked = now


class Outgoing:
    """Pieces of packed commands not accepted by a connection yet. The connection must be non-blocking.

    With 20,000 hosts a commit takes megabytes, more than a socket buffer; the worker continues while the shard
    receives it (docs/decisions/0006).
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pieces: Sequence[Piece] = ()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def put(self, pieces: list[bytes]) -> None:
        """Send these after all earlier pieces, as far as they are accepted. Raises ShardError."""
        self._pieces = [*self._pieces, *pieces] if self._pieces else pieces
        self.go_on()

    def go_on(self) -> int:
        """Send as much as is accepted now, when writable: returns the number of bytes. Raises ShardError."""
        total = 0
        while self._pieces:
            some = self._pieces[:MOST_PIECES]
            sent = self._connection.send_some(some)
            total += sent
            rest = _behind(some, sent)
            self._pieces = [*rest, *self._pieces[MOST_PIECES:]]
            if rest:
                break
        return total


def _behind(pieces: Sequence[Piece], sent: int) -> Sequence[Piece]:
    """Rest of the pieces after ``sent`` bytes."""
    for place, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[place + 1 :]]
        sent -= len(piece)
    return ()


class Arrivals:
    """Arrival rate of a partition's frames: ``per_second``, over the last half second or the last few reads."""

    __slots__ = ("_at", "per_second")

    def __init__(self, now: float) -> None:
        self._at = now
        self.per_second = 0.0

    def note(self, frames: int, now: float) -> None:
        """Note the number of frames of a read."""
        seconds, self._at = now - self._at, now
        if seconds > 0.0:
            self.per_second += min(1.0, seconds / _AVERAGED) * (frames / seconds - self.per_second)

    def worth(self, linger: float) -> float:
        """``linger``, or 0 if so few frames arrive in it that a wait would only make them older."""
        return linger if self.per_second * linger >= _GATHERS else 0.0


def together(now: float, linger: float, number: int) -> float:
    """Time of the next read of a partition that lingers: one of ``_TURNS`` moments within every ``linger``, the
    same for every ``_TURNS``-th partition. So the frames of some share a batch, and not all come at once."""
    phase = linger * (number % _TURNS) / _TURNS
    return ((now - phase) // linger + 1.0) * linger + phase
