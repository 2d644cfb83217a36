"""Trust faults of certificates, users and ports.

A master is reachable, but its clients cannot or must not trust it.

Open connections continue, so all clients are disconnected first. Parts have to log in one line what to do, and to
continue by themselves once it is done.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from functools import partial

from acquisition.errors import ShardpulseError
from acquisition.link.resp import Connection
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.servers import grants
from acquisition.wire import keys
from acquisition.wire.keys import DEFAULT_PARTITIONS
from experiments.chaos.faults.targets import healthy, until
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, kind
from experiments.emulation.workload import host_number
from experiments.testbed import Node

_DAYS = 86400.0
_GREETED_SECONDS = 1.0
_SHORTEST, _LONGEST, _SETTLE = 1.0, 4.0, 6.0  #: parts that require an operator retry after five seconds


@kind("trust", "shard", _SHORTEST, _LONGEST, _SETTLE)
def expired_certificate(installation: Installation, fault: Fault) -> Iterator[None]:
    """A master's certificate has expired; another one is issued."""
    with _distrusted(installation, fault, "has expired: issue a new one", later=-25 * _DAYS):
        yield


@kind("trust", "shard", _SHORTEST, _LONGEST, _SETTLE)
def early_certificate(installation: Installation, fault: Fault) -> Iterator[None]:
    """A master's certificate is not valid yet, as by a clock that is wrong."""
    with _distrusted(installation, fault, "is not valid yet: check the clocks", later=2 * _DAYS):
        yield


@kind("trust", "shard", _SHORTEST, _LONGEST, _SETTLE)
def strange_certificate(installation: Installation, fault: Fault) -> Iterator[None]:
    """A master's certificate is of an authority that nobody here believes."""
    with _distrusted(installation, fault, "from an authority that is not in", strange=True):
        yield


@kind("trust", "shard", _SHORTEST, _LONGEST, _SETTLE)
def other_name(installation: Installation, fault: Fault) -> Iterator[None]:
    """A master's certificate is for another name than it is called by."""
    with _distrusted(installation, fault, "for names other than", names=["elsewhere.example.org"]):
        yield


@kind("trust", "shard", _SHORTEST, _LONGEST, _SETTLE)
def revoke_user(installation: Installation, fault: Fault) -> Iterator[None]:
    """The probes' user is switched off on master and replica, and its connections are ended."""
    nodes = healthy(installation, fault.target)
    for node in nodes:
        node.call("ACL", "SETUSER", grants.PROBE, "off")
        node.call("CLIENT", "KILL", "USER", grants.PROBE)
    try:
        _check_told(installation, nodes[0], "WRONGPASS", "set [shards] username and password_file")
        yield
    finally:
        for node in nodes:
            switch_on = partial(node.call, "ACL", "SETUSER", grants.PROBE, "on")
            until(switch_on, f"{node} does not switch it on")


@kind("trust", "shard", _SHORTEST, _LONGEST, _SETTLE)
def port_without_tls(installation: Installation, fault: Fault) -> Iterator[None]:
    """A master's port speaks no TLS any more: clients with TLS call one without."""
    master, _ = healthy(installation, fault.target)
    port = master.address.port
    with contextlib.closing(master.connect()) as connection:  # it stays
        connection.call("CONFIG", "SET", "cluster-announce-tls-port", port)
        connection.call("CONFIG", "SET", "tls-port", 0)
        connection.call("CONFIG", "SET", "port", port)
        try:
            _cut_off(connection)
            _check_told(installation, master, "use its TLS port, or unset [shards] tls_ca")
            yield
        finally:
            connection.call("CONFIG", "SET", "port", 0)
            connection.call("CONFIG", "SET", "tls-port", port)
            connection.call("CONFIG", "SET", "cluster-announce-tls-port", 0)


@kind("trust", "shard", _SHORTEST, _LONGEST)
def client_without_tls(installation: Installation, fault: Fault) -> Iterator[None]:
    """Clients without TLS call a master's TLS port: they are hung up on, and ours say nothing at all."""
    master, _ = healthy(installation, fault.target)
    for _ in range(20):
        with socket.create_connection(master.address, _GREETED_SECONDS) as plain:
            plain.settimeout(_GREETED_SECONDS)
            plain.sendall(b"PING\r\n")
            heard = b""
            with contextlib.suppress(ConnectionResetError):
                heard = plain.recv(100)
            assert b"PONG" not in heard, heard
    without = installation.cluster.access.credentials(grants.PROBE)._replace(authority="")
    _check_refused(master, without, "TLS and a user are required; set [shards] tls_ca, username and password_file")
    yield


@contextlib.contextmanager
def _distrusted(
    installation: Installation, fault: Fault, told: str, names: list[str] | None = None, later: float = 0.0,
    strange: bool = False,
) -> Iterator[None]:  # fmt: skip
    """A master presents another certificate until the fault is healed; its clients log ``told``."""
    master, _ = healthy(installation, fault.target)
    other = master.issue(f"{fault.kind}-{fault.at:g}", names or [master.address.host], later, strange)
    with contextlib.closing(master.connect()) as connection:  # it stays
        connection.call("CONFIG", "SET", *other)
        try:
            _cut_off(connection)
            _check_told(installation, master, told)
            yield
        finally:
            connection.call("CONFIG", "SET", *master.certificate())


def _cut_off(connection: Connection) -> None:
    """End the connections of all other clients; those of replicas and the bus are kept."""
    connection.call("CLIENT", "KILL", "TYPE", "normal")


def _check_told(installation: Installation, master: Node, *told: str) -> None:
    """Wait until a probe logs why it cannot use ``master``, in one line containing ``told``.

    Raises AssertionError, TemporaryError.
    """
    _check_refused(master, installation.cluster.access.credentials(grants.PROBE), *told)
    with contextlib.closing(installation.connect()) as cluster:
        tags = keys.tags(DEFAULT_PARTITIONS)
        homes = {tags[keys.partition_of(host_number(one), len(tags))] for one in range(installation.options.hosts)}
        concerned = any(cluster.owner(keys.raw(tag)) == master.address for tag in homes)

    def said() -> bool:
        problems = (line for generator in installation.generators for line in generator.problems())
        return any(all(part in line for part in told) and "\n" not in line for line in problems)

    if concerned:
        until(said, f"no probe says of {master}: {' … '.join(told)}")


def _check_refused(master: Node, credentials: Credentials, *told: str) -> None:
    """Check that a client of our own is refused, with a reason. Raises AssertionError."""
    try:
        with contextlib.closing(Connection(master.address, credentials, _GREETED_SECONDS)):
            said = ""
    except ShardpulseError as error:
        said = str(error)
    assert all(part in said for part in told), said or f"{master} lets {credentials.username} in"
    assert "\n" not in said
