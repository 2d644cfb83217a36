"""Cutting relay: a Unix socket before PostgreSQL that drops connections.

It is a pooler at its worst, and cuts in the middle of anything.
"""

from __future__ import annotations

import random
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SOCKET = ".s.PGSQL.5432"
_PIECE = 512  #: bytes that are passed on at once


@contextmanager
def cutting(server: Path, directory: Path, cuts: int, most_bytes: int) -> Iterator[list[int]]:
    """A server's socket in ``directory``. The first ``cuts`` connections end after 1 to ``most_bytes`` bytes; after how
    many is in the list that is yielded. The directory's path has to be short: a socket's is at most 107 bytes."""
    cut: list[int] = []
    dice = random.Random(cuts)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory / _SOCKET))
        listening.listen()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    room = dice.randint(1, most_bytes) if len(cut) < cuts else None
                    if room is not None:
                        cut.append(room)
                    threading.Thread(target=_pass_on, args=(client, server / _SOCKET, room), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield cut
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()


def _pass_on(client: socket.socket, server: Path, room: int | None) -> None:
    with client, socket.socket(socket.AF_UNIX) as behind, suppress(OSError):
        behind.connect(str(server))
        while room is None or room > 0:
            for one in select.select([client, behind], [], [])[0]:
                data = one.recv(_PIECE if room is None else min(_PIECE, max(1, room)))
                if not data:
                    return
                (behind if one is client else client).sendall(data)
                room = None if room is None else room - len(data)
