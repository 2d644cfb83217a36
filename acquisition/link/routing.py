"""Commands for many shards, sorted by the shard that owns the slot of their key (no input or output)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from acquisition.link.resp import Address, packed
from acquisition.link.slots import Stripe
from acquisition.wire import keys

#: A key that a command is about, and the command.
Command = tuple[str, tuple[Any, ...]]


class Route(NamedTuple):
    """What one shard is asked: the packed commands, and their places in the batch."""

    address: Address
    indexes: list[int]
    payload: bytes


class Batch:
    """Commands for ``Cluster.ask`` and ``gather``. Keep it to ask the same repeatedly: the commands are
    packed and sorted by shard once for each map of slots."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = commands
        self.stripes: list[Stripe] | None = None  #: the map that it is sorted by
        self.routes: list[Route] = []
        self.unowned: list[tuple[int, int]] = []  #: command and slot, where nobody owns that

    def route(self, stripes: list[Stripe], owner_of: Callable[[int], Address | None]) -> None:
        """Sort by shard."""
        by_shard: dict[Address, list[int]] = {}
        self.stripes, self.unowned = stripes, []
        for index, (key, _) in enumerate(self.commands):
            slot = keys.slot_of(key)
            address = owner_of(slot)
            if address is None:
                self.unowned.append((index, slot))
            else:
                by_shard.setdefault(address, []).append(index)
        self.routes = [
            Route(address, indexes, b"".join([packed(self.commands[index][1]) for index in indexes]))
            for address, indexes in by_shard.items()
        ]
