"""Cluster of shards: owners of slots, calls and batches of calls that follow them.

Redis Cluster has no cross-slot commands, so a caller names a key with every
command; ``gather`` groups commands by shard and sends one pipeline to each. After MOVED
the slot map is read again; ASK is followed once.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from acquisition.errors import AdmissionError, PermissionRefused, ShardError, ShardpulseError, TemporaryError
from acquisition.link.local_shards import LocalShards, Seeds
from acquisition.link.resp import Address, Answered, Connection, ReplyError, packed, raise_for
from acquisition.link.routing import Stripe, parse_slots, redirection
from acquisition.link.trust.credentials import Credentials
from acquisition.wire import keys

_ROUNDS = 4
#: The key of a command, and the command.
Command = tuple[str, tuple[Any, ...]]


class Route(NamedTuple):
    """Packed commands for one shard, and their places in the batch."""

    address: Address
    indexes: list[int]
    payload: bytes


class Batch:
    """Commands for ``Cluster.ask`` and ``gather``. Keep one to repeat the same commands: they are
    packed and sorted by shard once per slot map."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = commands
        self.stripes: list[Stripe] | None = None  #: the map used for sorting
        self.routes: list[Route] = []
        self.unowned: list[tuple[int, int]] = []  #: command and slot, for slots without an owner

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


class Cluster:
    """Connections to all shards, found through any of ``seeds``.

    Local shards are looked up whenever the map of slots is read, so that they are found again at other ports; then
    ``instance`` distinguishes clusters, which may have different layouts. Raises ShardError when no
    seed answers, TemporaryError when a slot has no owner.
    """

    def __init__(self, seeds: Seeds, credentials: Credentials | None = None, timeout: float = 2.0) -> None:
        self.instance = ""  #: of local shards (acquisition.link.local_shards.Found)
        self._seeds = seeds
        self._credentials = credentials
        self._timeout = timeout
        self._connections: dict[Address, Connection] = {}
        self._stripes: list[Stripe] = []
        self._lows: list[int] = []
        self._doubtful = False

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def connect(self, address: Address) -> Connection:
        """A new connection to one shard, owned by the caller. Raises ShardError if it cannot be reached, or if
        its port no longer belongs to a local shard of the same cluster."""
        credentials = self._credentials
        if isinstance(self._seeds, LocalShards):
            found = self._seeds.look()
            if address not in found.addresses or found.instance != (self.instance or found.instance):
                raise ShardError(f"shard {address} has been stopped")
            credentials = found.credentials or credentials
        return Connection(address, credentials, self._timeout)

    def another(self) -> Cluster:
        """A Cluster of the same shards with its own connections: one thread, one Cluster."""
        seeds = self._seeds if isinstance(self._seeds, LocalShards) else self._known()
        return Cluster(seeds, self._credentials, self._timeout)

    def refresh(self) -> None:
        """Read the slot map again from the first shard that answers and may be asked. Raises AdmissionError or
        PermissionRefused if none may."""
        errors: list[str] = []
        refused: AdmissionError | PermissionRefused | None = None
        for address in sorted(self._known(), key=lambda one: one not in self._connections):  # connected shards first
            try:
                self._stripes = parse_slots(self._connection(address).call("CLUSTER", "SLOTS"), address)
            except AdmissionError as error:  # the map names it, and another seed may know a better one
                refused = error
                continue
            except PermissionRefused as error:  # another shard may know this user, or permit it
                self._drop(address)
                refused = refused or error
                continue
            except (ShardError, TemporaryError) as error:
                self._drop(address)
                errors.append(str(error))
                continue
            self._lows = [stripe.low for stripe in self._stripes]
            if self._stripes:
                self._doubtful = sum(high - low + 1 for low, high, _ in self._stripes) < keys.SLOTS
                return
            errors.append(f"shard {address} reports no slots yet")
        raise refused or ShardError("no shard answers: " + "; ".join(errors))

    def is_replaced(self) -> bool:
        """Whether ``shards up`` has made another cluster on this machine since the slot map was read."""
        try:
            return isinstance(self._seeds, LocalShards) and self._seeds.look().instance != self.instance
        except ShardpulseError:
            return False

    def _known(self) -> list[Address]:
        """Shards that can be asked; of local ones only those in the state file."""
        if not isinstance(self._seeds, LocalShards):
            return list(dict.fromkeys([*(owner for _, _, owner in self._stripes), *self._seeds]))
        try:
            found = self._seeds.look()
        except ShardpulseError:
            self._forget()
            raise
        if found.instance != self.instance:
            self._forget()
            self.instance = found.instance
        return list(dict.fromkeys(found.addresses))

    def _forget(self) -> None:
        self.close()
        self._stripes = []
        self._lows = []

    def masters(self) -> list[Address]:
        """The shards that own slots, in slot order."""
        if not self._stripes:
            self.refresh()
        return list(dict.fromkeys(owner for _, _, owner in self._stripes))

    def owner(self, key: str) -> Address:
        """The shard that owns a key's slot. Raises TemporaryError if none does."""
        if not self._stripes:
            self.refresh()
        slot = keys.slot_of(key)
        address = self._owner_of(slot)
        if address is None:
            self._stripes = []
            raise _unowned(slot)
        return address

    def known_owner(self, key: str) -> Address | None:
        """As ``owner``, without reading anything; None if unknown."""
        return self._owner_of(keys.slot_of(key))

    def call(self, key: str, *command: Any) -> Any:
        """One command on the shard that owns ``key``; an error reply is raised."""
        return raise_for(self.gather([(key, command)])[0])

    def gather(self, asked: Sequence[Command] | Batch) -> list[Any]:
        """Many (key, command) pairs, one pipeline per shard; replies in order, errors as values.

        Redirected commands are sent again to their new owner. A shard that cannot be
        reached yields its ShardError as the value of each of its commands, one that refuses this user its
        PermissionRefused, a slot without an owner a TemporaryError; after these the next call reads the map again:
        another shard may have taken over. Raises ShardError only if no shard answers at all, PermissionRefused if all
        that answer refuse this user.
        """
        whole = asked if isinstance(asked, Batch) else Batch(asked)
        replies: list[Any] = [None] * len(whole.commands)
        waiting: Sequence[int] = range(len(whole.commands))
        for attempt in range(_ROUNDS):
            batch = Batch([whole.commands[index] for index in waiting]) if attempt else whole
            answers = self._follow(batch, self.ask(batch))
            for index, answer in zip(waiting, answers, strict=True):
                replies[index] = answer
            waiting = [index for index in waiting if _is_moved(replies[index])]
            if not waiting:
                break
            if attempt < _ROUNDS - 1:
                self.refresh()
        return replies

    def prepare(self, batch: Batch) -> None:
        """Sort a batch by the current shards. Raises ShardError if no shard returns a map."""
        if self._doubtful:
            with contextlib.suppress(ShardError):
                self.refresh()
        if not self._stripes:
            self.refresh()
        if batch.stripes is not self._stripes:
            batch.route(self._stripes, self._owner_of)

    def _follow(self, batch: Batch, answers: list[Any]) -> list[Any]:
        """Repeat commands for partitions that are being migrated, on their new shard."""
        for address, indexes, _ in batch.routes:
            for index in indexes:
                answer = answers[index]
                if isinstance(answer, ReplyError) and str(answer).startswith("ASK "):
                    target = redirection(str(answer)[4:], address)
                    if target:
                        answers[index] = self._ask(target, batch.commands[index][1])
        return answers

    def ask(self, batch: Batch) -> list[Any]:
        """As ``gather``, in one round: each shard answers in order, and a redirection is an error like any other."""
        self.prepare(batch)
        replies: list[Any] = [None] * len(batch.commands)
        for index, slot in batch.unowned:
            replies[index] = _unowned(slot)
            self._doubtful = True
        answers = self._exchange(batch.routes)
        for route in batch.routes:
            for index, answer in zip(route.indexes, answers[route.address], strict=True):
                replies[index] = answer
                if type(answer) is Answered:
                    answer.tell(batch.commands[index][1])
        return replies

    def _owner_of(self, slot: int) -> Address | None:
        place = bisect.bisect_right(self._lows, slot) - 1
        if place < 0 or slot > self._stripes[place][1]:
            return None
        return self._stripes[place][2]

    def _exchange(self, routes: Sequence[Route]) -> dict[Address, list[Any]]:
        """One pipeline to each shard, all sent before the first reply is awaited: shards work in parallel."""
        answers: dict[Address, list[Any]] = {}
        try:
            for address, indexes, payload in routes:
                try:
                    self._connection(address).send(payload)
                except (ShardError, PermissionRefused) as error:
                    answers[address] = self._failed(address, error, len(indexes))
            for address, indexes, _ in routes:
                if address in answers:
                    continue
                connection = self._connections[address]
                try:
                    answers[address] = connection.receive_many(len(indexes))
                except ShardError as error:
                    answers[address] = self._failed(address, error, len(indexes))
        except BaseException:  # unread replies must not be taken for those of a later call
            self._doubtful = True
            for route in routes:
                self._drop(route.address)
            raise
        return answers

    def _failed(self, address: Address, error: ShardpulseError, count: int) -> list[Any]:
        self._drop(address)
        self._doubtful = True
        return [error] * count

    def _ask(self, address: Address, command: tuple[Any, ...] | bytes) -> Any:
        try:
            answer = self._connection(address).pipeline([("ASKING",), command])[1]
        except (ShardError, PermissionRefused) as error:
            return self._failed(address, error, 1)[0]
        if type(answer) is Answered:
            answer.tell(command)
        return answer

    def _connection(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = self.connect(address)
        return connection

    def _drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()


def _is_moved(reply: Any) -> bool:
    return isinstance(reply, ReplyError) and str(reply).startswith("MOVED ")


def _unowned(slot: int) -> TemporaryError:
    return TemporaryError(f"no shard owns slot {slot}: the cluster is being set up or a shard is down")
