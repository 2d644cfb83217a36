"""TLS shards on loopback with a user for each part.

They complement the shards of ``start_shards``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from acquisition.errors import ShardpulseError, UnavailableError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import write_layout
from acquisition.link.resp import Address, Connection
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.servers import configuration, grants, machine, process, rendering
from acquisition.shards.servers.process import Shard
from acquisition.shards.servers.redis_binary import RedisBinary
from acquisition.shards.topology import join
from acquisition.wire.layout import Layout
from experiments.processes import access
from experiments.processes.access import Access

_HOST = "127.0.0.1"
_START_SECONDS = 20.0


class TlsShards:
    """Running shards, built by ``running``, with the interface of ``acquisition.shards.servers.launch.Shards``."""

    def __init__(self, redis: RedisBinary, shards: Sequence[Shard], access: Access) -> None:
        self.redis = redis
        self.access = access
        self.addresses = [shard.address for shard in shards]
        self.pids = [shard.pid for shard in shards]

    def connect(self, timeout: float = 2.0) -> Cluster:
        """A new Cluster with a reader's credentials; the caller closes it."""
        return Cluster(self.addresses, self.access.credentials(grants.READER), timeout)


@contextlib.contextmanager
def running(count: int, directory: Path, connections: int, maxmemory: int = 0) -> Iterator[TlsShards]:
    """``count`` shards (0: one per core) with their layout, each pinned to a core, with as much memory as those without
    TLS, for ``connections`` each. Raises UnavailableError, CannotCreateError, ShardError, TemporaryError."""
    if lack := access.missing():
        raise UnavailableError(lack)
    redis, cores, known = access.server(), machine.cores(), access.make(directory)
    count = count or len(cores)
    memory = maxmemory or machine.memory_bytes() // 2 // count
    operator = known.credentials(grants.OPERATOR)
    with contextlib.ExitStack() as stack:
        shards = []
        for number, port in enumerate(machine.free_ports(count)):
            home, core = directory / f"shard-{number}", cores[number % len(cores)]
            files = str(home)
            server = rendering.Server(_HOST, (_HOST,), port, core, memory, connections, files, files, "root")
            known.place(server, {"logfile": configuration.quoted(str(home / process.LOG))})
            shard, child = process.launch(redis, Address(_HOST, port), core, home, tied=True)
            stack.callback(process.stop, [shard], [child])
            shards.append(shard)
        for shard in shards:
            _wait(shard, operator)
        made = TlsShards(redis, shards, known)
        join.form(made.addresses, credentials=operator)
        with contextlib.closing(Cluster(made.addresses, operator)) as cluster:
            write_layout(cluster, *Layout())
        yield made


def _wait(shard: Shard, operator: Credentials) -> None:
    """Wait until it answers. Raises ShardError."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            Connection(shard.address, operator).close()
            return
        except ShardpulseError:
            if time.monotonic() > deadline or not shard.alive:
                raise
            time.sleep(0.01)
