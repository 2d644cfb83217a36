"""A partition that a worker smooths: its connection, what it waits for, and when it acts next."""

from __future__ import annotations

from collections import deque
from typing import Any

from acquisition.errors import ShardError, ShardpulseError
from acquisition.link.resp import Address, Connection, error_for
from filters.worker.partition import Partition

COMMIT, TRIM, READ = "commit", "trim", "read"
BLOCK_MS = 1000
_FULL_SECONDS = 10.0
_SILENT = 3.0  #: longer than a shard may take to answer a read that waits for a second


class Overtaken(ShardpulseError):
    """The state in memory is not the one in the shard: load it again."""


class Moved(ShardpulseError):
    """The partition lies on another shard now."""


class Channel:
    """``partition`` is replaced whenever its state is loaded."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.connection: Connection | None = None
        self.loading: Address | None = None  #: the shard that its state is being loaded from
        self.ticket: object = None  #: of the loading that is awaited; outcomes of others come too late
        self.due: float | None = 0.0  #: when to load or to read; None while something is awaited
        self.asked = 0.0  #: when something was asked of the shard or came from it
        self.expected: deque[tuple[str, int]] = deque()
        self.replies: list[Any] = []
        self.leaving = False  #: given up as soon as no commit is under way
        self._full_until = 0.0

    def adopt(self, partition: Partition, connection: Connection) -> None:
        """Go on with a state that was loaded over this connection."""
        self.partition, self.connection = partition, connection
        self.ticket = self.loading = None
        self.expected.clear()
        self.replies = []
        self.due = 0.0

    def abandon(self, empty: Partition) -> None:
        """Forget the connection, what was awaited, and the state."""
        if self.connection is not None:
            self.connection.close()
        self.partition, self.connection = empty, None
        self.ticket = self.loading = None
        self.expected.clear()
        self.replies = []

    @property
    def committing(self) -> bool:
        """Whether the shard has not answered a commit yet."""
        return any(kind is COMMIT for kind, _ in self.expected)

    def full(self, now: float) -> bool:
        """Whether the next commit frees memory first."""
        return now < self._full_until

    def check(self, kind: str, replies: list[Any], now: float) -> None:
        """Raise what a shard refused: Moved when it is not the owner, Overtaken when somebody else has committed."""
        for reply in (*replies, *(replies[-1] or ())) if kind is COMMIT and isinstance(replies[-1], list) else replies:
            if isinstance(reply, Exception):
                if str(reply).startswith("OOM"):
                    self._full_until = now + _FULL_SECONDS
                if str(reply).startswith("MOVED"):
                    raise Moved(str(reply))
                raise error_for(reply, self.connection.address if self.connection else "")
        if kind is COMMIT and replies[-1] is None:
            raise Overtaken("another worker has committed")
        if kind is READ:
            found = b"" if replies[1] is None else replies[1].partition(b" ")[0]
            if found != self.partition.commit_id:
                raise Overtaken("the shard holds another commit")

    def check_silence(self, now: float) -> None:
        """Raise ShardError when the shard answers nothing any more, not even that nothing has come."""
        if self.connection is not None and self.expected and now - self.asked > _SILENT:
            raise ShardError(f"shard {self.connection.address} does not answer in time")
