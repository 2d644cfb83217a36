"""Outgoing buffer of a shard connection, written without blocking.

A worker with much to send goes on working while a shard takes it.

With 20,000 hosts a commit is of megabytes, more than a socket holds; a shard takes it when it has done what others
asked of it before (docs/decisions/0006).
"""

from __future__ import annotations

from collections.abc import Sequence

from acquisition.link.resp import MOST_PIECES, Connection

Piece = bytes | memoryview


class Outgoing:
    """The pieces of packed commands that a connection has not taken yet. The connection must not wait."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pieces: Sequence[Piece] = ()

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def put(self, pieces: list[bytes]) -> None:
        """Send these behind what was put before, as far as they are taken. Raises ShardError."""
        self._pieces = [*self._pieces, *pieces] if self._pieces else pieces
        self.go_on()

    def go_on(self) -> int:
        """Send what is taken now, when it is writable: how many bytes. Raises ShardError."""
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
    """What is left of pieces of which so many bytes are sent."""
    for place, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[place + 1 :]]
        sent -= len(piece)
    return ()
