"""A shard that is asked who owns what while the owner is dead or slow: a connection that is kept, without waiting."""

from __future__ import annotations

from typing import Any

from acquisition.link.resp import pack
from acquisition.outbox.connection import ShardConnection

_QUESTION = pack(("CLUSTER", "SLOTS"))
_LIFE = 6.0  #: seconds; a failover takes less, and who is cut off from the others knows nothing of it
_EVERY = 1.0  #: seconds between two questions while the owner takes its time
_LOOK = 0.05


class Guide:
    """``connection`` is open, and its user is logged in. ``due`` is when ``reply`` wants to be called; raises
    ConnectionFailed, as ``reply`` does."""

    def __init__(self, connection: ShardConnection, timeout: float, now: float) -> None:
        self.connection = connection
        self.due = now + _EVERY
        self._until = now + _LIFE
        self._timeout = timeout
        self._deadline = 0.0  #: of the answer that is expected, 0: none is

    def is_over(self, now: float) -> bool:
        """Whether another one should be asked."""
        return now >= self._until

    @property
    def is_asked(self) -> bool:
        """Whether an answer is under way."""
        return bool(self._deadline)

    def ask(self, now: float) -> None:
        """Who owns what, unless that is under way."""
        if not self._deadline:
            self._deadline = now + self._timeout
            self.connection.send(_QUESTION)
        self.due = now + _LOOK

    def ask_now_and_then(self, now: float) -> None:
        """The same once a second."""
        if now >= self.due:
            self.ask(now)

    def reply(self, now: float) -> Any:
        """The answer, an error as a value; None while there is none."""
        if not self._deadline:
            return None
        for reply in self.connection.receive():
            self._deadline, self.due = 0.0, now + _EVERY
            return reply
        if now >= self._deadline:
            self.connection.fail("timeout", f"shard {self.connection.address} does not answer in time")
        return None
