"""Commands sent to a shard, decoded."""

from __future__ import annotations

from collections.abc import Iterable

import hiredis


def commands(parts: Iterable[bytes]) -> list[list[bytes]]:
    """The words of each command."""
    reader = hiredis.Reader()
    reader.feed(b"".join(parts))
    found: list[list[bytes]] = []
    while (command := reader.gets()) is not False:
        assert isinstance(command, list)
        found.append(command)
    return found
