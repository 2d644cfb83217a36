"""Nodes of a running cluster, parsed from CLUSTER NODES.

A line of CLUSTER NODES is ``id host:port@bus flags master ping pong epoch link slot …``; on the line
of the node that answers, ``[slot->-id]`` is a slot it is handing over and ``[slot-<-id]`` one
it is taking in (Redis Cluster specification). Only the statements of a node about itself are used here:
those about others may be older.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from acquisition.errors import PermissionRefused, ShardError, TemporaryError, UnavailableError
from acquisition.link.local_shards import Seeds, look
from acquisition.link.resp import Address, Answered, Connection, parse_address, raise_for
from acquisition.link.trust.credentials import Credentials

Command = tuple[Any, ...]


class Node(NamedTuple):
    """One member in its own view; ``master`` is the id of the master of a replica, else ""."""

    id: str
    address: Address
    master: str
    epoch: int
    slots: frozenset[int]
    migrating: dict[int, str]  #: slot -> id of the node it goes to
    importing: dict[int, str]  #: slot -> id of the node it comes from


class Mention(NamedTuple):
    """One member in the view of another one: whether it is there, and its role."""

    id: str
    address: Address | None
    flags: frozenset[str]
    master: str
    owns_slots: bool
    slots: int  #: number of owned slots


class Members:
    """Connections to the members of a cluster, found through ``seeds``. A context manager.

    ``silent`` holds members that do not answer, with the reason, ``down`` those of them that
    are masters with slots; ``refusing`` those that refuse this user, if that is tolerated;
    ``mentions`` are statements of members about each other, answering or not.
    """

    def __init__(self, seeds: Seeds, credentials: Credentials | None = None, timeout: float = 5.0) -> None:
        self.credentials = credentials
        self.down: dict[Address, str] = {}
        self.silent: dict[Address, str] = {}
        self.refusing: dict[Address, PermissionRefused] = {}
        self.mentions: list[Mention] = []
        self._seeds = seeds
        self._instance = ""
        self._timeout = timeout
        self._connections: dict[Address, Connection] = {}
        self._places: dict[str, Address] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def look(self, partly: bool = False) -> list[Node]:
        """Ask every member about itself; unreachable ones are left out, and with ``partly`` those that refuse.

        Raises UnavailableError if none answers, PermissionRefused if one refuses, or with ``partly`` if all that answer
        refuse.
        """
        found: dict[str, Node] = {}
        mentions: list[Mention] = []
        silent: dict[Address, str] = {}
        refusing: dict[Address, PermissionRefused] = {}
        seeds = look(self._seeds)
        if seeds.instance != self._instance:  # the local shards have been replaced
            self.close()
            self._places, self._instance = {}, seeds.instance
            self.credentials = seeds.credentials or self.credentials
        waiting = list(dict.fromkeys([*seeds.addresses, *self._places.values()]))
        for address in waiting:  # grows while members mention others
            try:
                text = self._connection(address).call("CLUSTER", "NODES")
            except (ShardError, TemporaryError) as error:  # gone, or loading what it got from its master
                self.drop(address)
                silent[address] = str(error)
                continue
            except PermissionRefused as error:
                if not partly:
                    raise
                self.drop(address)
                refusing[address] = error
                continue
            node = own(text, address)
            found[node.id] = node
            mentions += others(text, address)
            waiting += [mention.address for mention in mentions if mention.address and mention.address not in waiting]
        if not found:
            for refusal in refusing.values():
                raise refusal
            raise UnavailableError("no shard answers: " + "; ".join(silent.values()))
        with_slots = {mention.address for mention in mentions if mention.owns_slots}
        self.down = {address: reason for address, reason in silent.items() if address in with_slots}
        self.silent, self.refusing = silent, refusing
        self.mentions = mentions
        self._places = {node.id: node.address for node in found.values()}
        return list(found.values())

    @property
    def absent(self) -> dict[Address, str]:
        """Members in ``silent`` other than those that answer. A member may be mentioned by an address that is in
        no certificate: over a new connection to a shard Redis forgets its name until the next message (7.0)."""
        whose: dict[Address, set[str]] = {}
        for mention in self.mentions:
            if mention.address is not None:
                whose.setdefault(mention.address, set()).add(mention.id)
        answering = self._places.keys()
        return {at: reason for at, reason in self.silent.items() if at not in whose or not whose[at] <= answering}

    def call(self, node: str, *command: Any, timeout: float | None = None) -> Any:
        """One command on the member with this id; an error reply is raised."""
        reply = self.pipeline(node, [command], timeout)[0]
        if isinstance(reply, Answered):
            reply.tell(command)
        return raise_for(reply, self._places[node])

    def pipeline(self, node: str, commands: Sequence[Command], timeout: float | None = None) -> list[Any]:
        """Many commands on the member with this id; replies in order, errors as values."""
        if not commands:
            return []
        connection = self._connection(self._places[node])
        try:
            connection.settimeout(timeout or self._timeout)
            return connection.pipeline(list(commands))
        except BaseException:  # unread replies must not be taken for those of a later call
            self.drop(self._places[node])
            raise

    def all(self, node: str, commands: Sequence[Command]) -> list[Any]:
        """As ``pipeline``; the first error reply is raised."""
        return [raise_for(reply, self._places[node]) for reply in self.pipeline(node, commands)]

    def place(self, node: str) -> Address:
        """Address of the member with this id."""
        return self._places[node]

    def knows(self, node: str) -> bool:
        """Whether the member answered the last ``look``."""
        return node in self._places

    def known_to(self, node: str) -> set[str]:
        """Ids of the others known to a member."""
        place = self._places[node]
        return {mention.id for mention in others(self.call(node, "CLUSTER", "NODES"), place)}

    def owners_known_to(self, node: str) -> dict[str, frozenset[int]]:
        """Slot owners in a member's view, by id."""
        return owners_in(self.call(node, "CLUSTER", "NODES"))

    def keys(self, node: str, slot: int) -> list[bytes]:
        """Keys of a slot on a member."""
        count = self.call(node, "CLUSTER", "COUNTKEYSINSLOT", slot)
        found: list[bytes] = self.call(node, "CLUSTER", "GETKEYSINSLOT", slot, count) if count else []
        return found

    def weights(self, node: str, keys: Sequence[bytes]) -> list[int]:
        """Memory of each key in bytes; 0 for one that has expired meanwhile."""
        replies = self.pipeline(node, [("MEMORY", "USAGE", key) for key in keys])
        return [reply if isinstance(reply, int) else 0 for reply in replies]

    def weigh(self, node: str, slots: Sequence[int]) -> int:
        """Memory of all keys of some slots in bytes."""
        counts = self.all(node, [("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots])
        full = [slot for slot, count in zip(slots, counts, strict=True) if count]
        return sum(sum(self.weights(node, self.keys(node, slot))) for slot in full)

    def drop(self, address: Address) -> None:
        """Close the connection to a member: its pending answers will not be taken for others."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def _connection(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = Connection(address, self.credentials, self._timeout)
        return connection


def pairs(text: bytes) -> dict[str, str]:
    """Parse lines ``name:value``, as of INFO and CLUSTER INFO."""
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
    return {key: value for key, colon, value in lines if colon}


def own(text: bytes, asked: Address) -> Node:
    """The node at ``asked``, from its own statement."""
    for words in _lines(text):
        if "myself" in words[2].split(","):
            migrating: dict[int, str] = {}
            importing: dict[int, str] = {}
            slots: set[int] = set()
            for word in words[8:]:
                _take_slots(word, slots, migrating, importing)
            return Node(words[0], asked, _id(words[3]), int(words[6]), frozenset(slots), migrating, importing)
    raise ShardError(f"shard {asked} does not report its own entry")


def owners_in(text: bytes) -> dict[str, frozenset[int]]:
    """Slot owners, as reported by the node that was asked."""
    found = {}
    for words in _lines(text):
        if slots := _owned(words):
            found[words[0]] = frozenset(slots)
    return found


def others(text: bytes, asked: Address) -> list[Mention]:
    """Other members, as the node at ``asked`` mentions them."""
    return [
        Mention(
            words[0], _address(words[1], asked), frozenset(words[2].split(",")), _id(words[3]), len(words) > 8,
            len(_owned(words)),
        )
        for words in _lines(text)
        if not {"myself", "handshake", "noaddr"} & set(words[2].split(","))
    ]  # fmt: skip


def _owned(words: Sequence[str]) -> set[int]:
    """Slots of the node in a line."""
    slots: set[int] = set()
    for word in words[8:]:
        _take_slots(word, slots, {}, {})
    return slots


def _lines(text: bytes) -> list[list[str]]:
    return [words for line in text.decode().splitlines() if len(words := line.split()) >= 8]


def _take_slots(word: str, slots: set[int], migrating: dict[int, str], importing: dict[int, str]) -> None:
    if not word.startswith("["):
        low, _, high = word.partition("-")
        slots.update(range(int(low), int(high or low) + 1))
        return
    slot, out, target = word.strip("[]").partition("->-")
    if out:
        migrating[int(slot)] = target
    else:
        slot, _, source = word.strip("[]").partition("-<-")
        importing[int(slot)] = source


def _id(word: str) -> str:
    return "" if word == "-" else word


def _address(word: str, asked: Address) -> Address | None:
    """Parse ``host:port@bus[,hostname[,name=value…]]``. A name is what clients verify; an empty host is that of
    ``asked``."""
    place, _, rest = word.partition("@")
    name = rest.partition(",")[2].partition(",")[0]
    host, _, port = place.rpartition(":")
    try:
        if name and "=" not in name:
            return parse_address(f"{name}:{port}")
        return parse_address(place) if host else Address(asked.host, int(port))
    except ValueError:
        return None


def owners(nodes: Sequence[Node]) -> dict[int, str]:
    """Slot -> id of the master that owns it; if two claim it, the one with the higher epoch."""
    found: dict[int, str] = {}
    for node in sorted((node for node in nodes if not node.master), key=lambda node: node.epoch):
        found.update(dict.fromkeys(node.slots, node.id))
    return found


def memory(members: Members, node: str) -> tuple[int, int]:
    """Used memory of a shard and its limit (0: none), in bytes."""
    figures = pairs(members.call(node, "INFO", "memory"))
    return int(figures["used_memory"]), int(figures["maxmemory"])
