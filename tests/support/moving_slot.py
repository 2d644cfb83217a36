"""Moving slot: a partition on its way from one shard to another."""

from __future__ import annotations

from acquisition.link.resp import Connection
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys


class Move:
    """Moves the slot of one partition from its shard to the other, step by step."""

    def __init__(self, shards: Shards, tag: str) -> None:
        self.key = keys.applied(tag)
        self.slot = keys.slot_of(self.key)
        cluster = shards.connect()
        self.source = cluster.owner(self.key)
        (self.target,) = set(shards.addresses) - {self.source}
        cluster.close()
        self.connections = {address: Connection(address) for address in shards.addresses}
        self.ids = {a: c.call("CLUSTER", "MYID").decode() for a, c in self.connections.items()}

    def begin(self) -> list[bytes]:
        self.connections[self.target].call("CLUSTER", "SETSLOT", self.slot, "IMPORTING", self.ids[self.source])
        self.connections[self.source].call("CLUSTER", "SETSLOT", self.slot, "MIGRATING", self.ids[self.target])
        found: list[bytes] = self.connections[self.source].call("CLUSTER", "GETKEYSINSLOT", self.slot, 1000)
        return found

    def carry(self, names: list[bytes]) -> None:
        if names:
            target = self.target
            self.connections[self.source].call("MIGRATE", target.host, target.port, "", 0, 2000, "KEYS", *names)

    def finish(self) -> None:
        for address in (self.target, self.source):
            self.connections[address].call("CLUSTER", "SETSLOT", self.slot, "NODE", self.ids[self.target])
        for connection in self.connections.values():
            connection.close()
