"""One redis-server of a testbed: on a host, pinned to a core, killed and started again."""

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
from acquisition.shards import process
from acquisition.shards.process import Shard
from acquisition.shards.redis_binary import RedisBinary
from experiments.testbed.network import Host
from experiments.testbed.view import ClusterView, parse

_START_SECONDS = 10.0
_ASK_SECONDS = 2.0


class Node:
    """Master or replica, which may change; ``name`` says what it began as. ``shard`` is its process now."""

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
        process.configure(redis, address, core, directory, maxmemory, directives)

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
            except ShardpulseError as error:  # it does not listen yet, or loads its master's data
                if not self.alive:
                    raise ShardError(f"{self} ended: {process.last_words(self._directory)}") from error
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def call(self, *command: Any) -> Any:
        """One command, asked on its own host, so that no fault of a link is in the way. Raises ShardError …"""
        with self.host.inside():
            connection = Connection(self.address, timeout=_ASK_SECONDS)
        with closing(connection):
            return connection.call(*command)

    def view(self) -> ClusterView:
        """The cluster as it sees it. Raises ShardError when it does not answer."""
        return parse(self.call("CLUSTER", "NODES").decode())

    def in_sync(self) -> bool:
        """Whether it is a replica that has all of its master's data and a link to it."""
        lines = self.call("INFO", "replication").decode().split()
        return "role:slave" in lines and "master_link_status:up" in lines

    def kill(self) -> None:
        """kill -9; it is gone, and its memory with it, when this returns."""
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
