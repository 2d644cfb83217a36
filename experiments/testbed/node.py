"""Node of a testbed: a redis-server with TLS and users, pinned to a core.

It can be killed and restarted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from acquisition.errors import ShardError, ShardpulseError
from acquisition.link.resp import Address, Connection
from acquisition.shards.servers import configuration, process, rendering
from acquisition.shards.servers.process import Shard
from acquisition.shards.servers.redis_binary import RedisBinary
from experiments.processes.access import CERTIFICATE, MASTER_KEY, Access
from experiments.testbed.network import Host
from experiments.testbed.view import ClusterView, parse

_START_SECONDS = 10.0
_ASK_SECONDS = 2.0
_PAIR = (("cert", "pem"), ("key", "key"))
_CONNECTIONS = 4000  #: of clients, at most


class Node:
    """Master or replica, which may change; ``name`` has its initial role. ``shard`` is its current process."""

    def __init__(
        self,
        name: str,
        host: Host,
        address: Address,
        core: int,
        directory: Path,
        maxmemory: int,
        directives: Mapping[str, str],
        redis: RedisBinary,
        access: Access,
    ) -> None:
        self.name = name
        self.host = host
        self.address = address
        self.node_id = ""
        self.shard: Shard
        self._core = core
        self._directory = directory
        self._redis = redis
        self._child: subprocess.Popen[bytes] | None = None
        self._access = access
        home, bind = str(directory), (address.host,)
        server = rendering.Server(address.host, bind, address.port, core, maxmemory, _CONNECTIONS, home, home, "root")
        access.place(server, {"logfile": configuration.quoted(str(directory / process.LOG)), **directives})

    def __repr__(self) -> str:
        return f"Node({self.name}, {self.address})"

    @property
    def alive(self) -> bool:
        """True while its process exists, frozen or not."""
        return self._child is not None and self.shard.alive

    def start(self) -> None:
        """Start it and wait until it answers, empty. Raises ShardError."""
        with self.host.inside():
            self.shard, self._child = process.launch(self._redis, self.address, self._core, self._directory, tied=True)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.node_id = self.call("CLUSTER", "MYID").decode()
                return
            except ShardpulseError as error:  # it does not listen yet, or is loading its master's data
                if not self.alive:
                    raise ShardError(f"{self} ended: {process.last_words(self._directory)}") from error
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def call(self, *command: Any) -> Any:
        """One command, sent on its own host, so that no link fault interferes. Raises ShardError …"""
        with closing(self.connect()) as connection:
            return connection.call(*command)

    def connect(self) -> Connection:
        """A new connection, made on its host by a user with all rights. Raises ShardError."""
        with self.host.inside():
            return Connection(self.address, self._access.credentials(MASTER_KEY), _ASK_SECONDS)

    def certificate(self, name: str = CERTIFICATE) -> tuple[str, ...]:
        """The arguments of CONFIG SET for one of its certificates; its own first one by default."""
        files = ((f"tls-{what}-file", str(self._directory / f"{name}.{end}")) for what, end in _PAIR)
        return tuple(word for words in files for word in words)

    def issue(self, name: str, names: list[str], later: float, strange: bool) -> tuple[str, ...]:
        """One more certificate, as ``Access.certify`` issues it; the arguments of CONFIG SET for it."""
        self._access.certify(self._directory, names, name, later, strange)
        return self.certificate(name)

    def renew_users(self) -> None:
        """Write its file of users with the currently valid passwords, which it reads at its start."""
        self._access.list_users(self._directory)

    def view(self) -> ClusterView:
        """Its view of the cluster. Raises ShardError if it does not answer."""
        return parse(self.call("CLUSTER", "NODES").decode())

    def in_sync(self) -> bool:
        """Whether it is a replica with all of its master's data and a link to it."""
        lines = self.call("INFO", "replication").decode().split()
        return "role:slave" in lines and "master_link_status:up" in lines

    def kill(self) -> None:
        """kill -9; it is gone, with its memory, when this returns."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def freeze(self) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""
        os.kill(self.shard.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.shard.pid, signal.SIGCONT)

    def remove(self) -> None:
        """End it and delete its files."""
        if self._child is not None:
            self.kill()
            process.stop([self.shard], [self._child])
