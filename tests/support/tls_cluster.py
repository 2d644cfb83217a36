"""TLS cluster of three masters and a replica, from rendered files.

The user ``operator`` joins them.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from acquisition.cli import main as shardpulse
from acquisition.errors import ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address, Connection
from acquisition.link.trust.credentials import Credentials
from acquisition.model.identity import host_id
from acquisition.shards.servers import grants, machine, redis_binary, rendering
from acquisition.shards.topology import growth, join
from acquisition.wire import keys
from experiments.processes import access
from experiments.processes.access import MASTER_KEY, Access
from tests.support.processes import started
from tests.support.waiting import eventually

LACK = access.missing()  #: why there are no shards with TLS here; "" where there are
NAME = "localhost"  #: the only one in the certificates


class Secured(NamedTuple):
    """``addresses``: the masters, then the replica; ``spare`` know nobody."""

    addresses: list[Address]
    spare: list[Address]
    access: Access
    children: list[subprocess.Popen[bytes]]

    @property
    def ca(self) -> Path:
        """The file that clients believe."""
        return self.access.ca

    def credentials(self, user: str) -> Credentials:
        """As a part has them."""
        return self.access.credentials(user)

    def configure(self, user: str, more: str = "") -> str:
        """The text of a part's configuration."""
        return self.access.section(user, self.addresses[:1], more)


def command_in(home: Path) -> list[str]:
    """What runs the server whose files lie in ``home``."""
    return [redis_binary.find().path, str(home / "redis.conf")]


def command_with_tls() -> list[str]:
    """What runs a server whose options follow, with its TLS module where TLS is not built in."""
    server = access.server()
    return [server.path, *(["--loadmodule", server.tls_module] if server.tls_module else [])]


@contextmanager
def tls_cluster(directory: Path, masters: int = 3, spare: int = 0) -> Iterator[Secured]:
    """A running cluster with its layout, and one replica of the first master."""
    addresses = [Address(NAME, port) for port in machine.free_ports(masters + 1 + spare)]
    with contextlib.ExitStack() as stack:
        made = Secured(addresses[: masters + 1], addresses[masters + 1 :], access.make(directory), [])
        for number, address in enumerate(addresses):
            home = directory / f"shard-{number}"
            server = rendering.Server(
                NAME, ("127.0.0.1",), address.port, machine.cores()[0], 64 << 20, 500, str(home), str(home), "root"
            )
            made.access.place(server)
            log = stack.enter_context((home / "log").open("wb"))
            made.children.append(stack.enter_context(started(command_in(home), stdout=log, cwd=home)))
        operator = made.credentials(grants.OPERATOR)
        for address in addresses:
            eventually(lambda address=address: answers(address, operator))  # type: ignore[misc]
        config = directory / "operator.toml"
        config.write_text(made.configure(grants.OPERATOR, "timeout_seconds = 20.0\n"))
        form = ["shards", "form", "--addresses", ",".join(map(str, addresses[:masters])), "--config", str(config)]
        assert shardpulse(form) == 0
        join.replicate(addresses[masters], addresses[0], credentials=operator, seconds=60)
        growth.wait_for_names(addresses[:1], operator)
        yield made


def finds_replicas_lacking(said: str) -> bool:
    """Whether ``shardpulse status --json`` has found what is so here, and nothing else: two of three masters have no
    replica, though one has."""
    found = [row for row in json.loads(said)["findings"] if row["kind"] != "note"] if said else []
    return len(found) == 2 and all("has no replica in sync" in row["text"] for row in found)


def denied(secured: Secured) -> list[str]:
    """What the servers have refused to users that had logged in: who, and which command or key."""
    found = []
    for address in secured.addresses:
        with contextlib.closing(Connection(address, secured.credentials(MASTER_KEY))) as connection:
            for entry in connection.call("ACL", "LOG", 1000):
                told = dict(zip(entry[::2], entry[1::2], strict=True))
                if told[b"reason"] != b"auth":
                    found.append(f"{told[b'username']!r} {told[b'reason']!r} {told[b'object']!r}")
    return found


def host_on(cluster: Cluster, address: Address) -> str:
    """The name of a host whose partition this master owns."""
    tags = keys.tags(keys.DEFAULT_PARTITIONS)
    names = (f"host-{number}" for number in range(1000))
    return next(
        name for name in names if cluster.owner(keys.raw(tags[keys.partition_of(host_id(name), len(tags))])) == address
    )


def answers(address: Address, credentials: Credentials) -> bool:
    """Whether a server lets this user in."""
    with contextlib.suppress(ShardError), contextlib.closing(Connection(address, credentials)):
        return True
    return False
