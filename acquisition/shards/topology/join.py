"""Joining of started shards into one Redis Cluster: slots, meet, agreement.

Works with Redis 6.2 and 7.x: CLUSTER ADDSLOTSRANGE if the server has it, else ADDSLOTS.
A cluster of one or two masters is legal; failover needs three (Redis Cluster specification).
Everything here works on addresses, wherever the servers run.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from acquisition.errors import AdmissionError, ShardError, ShardpulseError, TemporaryError
from acquisition.link.resp import Address
from acquisition.link.trust import admission
from acquisition.link.trust.credentials import Credentials
from acquisition.wire.keys import SLOTS

_JOIN_TIMEOUT_MS = 500  #: minimum wait of Redis before it reports a cluster as ok again


def administer(address: Address, timeout: float = 5.0, credentials: Credentials | None = None) -> redis.Redis:
    """A redis-py client for one shard, for administration only. It sends a password only to ``owners`` in the
    ``credentials`` (acquisition.link.trust.admission); otherwise it raises redis.ConnectionError."""
    user = credentials if credentials is not None and credentials.password else None
    authority = credentials.authority if credentials is not None else ""
    secured: dict[str, Any] = (
        {"ssl_ca_certs": authority, "ssl_min_version": ssl.TLSVersion.TLSv1_3} if authority else {}
    )
    return redis.Redis(
        host=address.host,
        port=address.port,
        username=user.username if user is not None else None,
        password=user.secret() if user is not None else None,
        driver_info=None,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
        redis_connect_func=_greeting(credentials, address),
        ssl=bool(authority),
        **secured,
    )


def _greeting(credentials: Credentials | None, address: Address) -> Any:
    """Function that greets the server on a new connection. redis-py calls it with the connection, missing in its
    annotation."""

    def greet(connection: Any) -> None:
        try:
            admission.check(connection._sock, credentials, address)
        except ShardpulseError as error:
            raise redis.ConnectionError(str(error)) from error
        connection.on_connect()

    return greet


def stripes(count: int) -> list[tuple[int, int]]:
    """Slots of each of ``count`` shards, inclusive: as even as 16384 allows."""
    return [(shard * SLOTS // count, (shard + 1) * SLOTS // count - 1) for shard in range(count)]


def join(clients: Sequence[redis.Redis], addresses: Sequence[Address], release: tuple[int, ...]) -> None:
    """Give each shard its stripe of slots and its configuration epoch, and introduce every pair."""
    for number, (client, (low, high)) in enumerate(zip(clients, stripes(len(clients)), strict=True)):
        if release >= (7,):
            _call(client, "CLUSTER", "ADDSLOTSRANGE", low, high)
        else:
            _call(client, "CLUSTER", "ADDSLOTS", *range(low, high + 1))
        _call(client, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for first, second in combinations(range(len(clients)), 2):
        _call(clients[first], "CLUSTER", "MEET", *_place(addresses[second]))


def _place(address: Address) -> tuple[str, int]:
    """Address and port for CLUSTER MEET, which accepts no names. Raises ShardError for a name that does not resolve."""
    try:
        return str(socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][4][0]), address.port
    except OSError as error:
        raise ShardError(f"shard {address} is unreachable: {error.strerror or error}") from error


def form(masters: Sequence[Address], seconds: float = 15.0, credentials: Credentials | None = None) -> None:
    """Make a cluster of the empty servers at ``masters``, and wait until all agree.

    Raises ShardError if one refuses, TemporaryError if they do not agree within ``seconds``.
    """
    with clients_of(masters, seconds, credentials) as clients:
        join(clients, masters, (7,))
        wait_joined(clients, time.monotonic() + seconds, lambda: None)


def introduce(
    newcomer: Address,
    members: Sequence[Address],
    seconds: float = 15.0,
    serving: bool = True,
    credentials: Credentials | None = None,
) -> None:
    """Make an empty server known to a cluster, and wait until it and all of ``members`` know each other.

    ``serving``: also until it reports the cluster as ok, which takes it about two seconds; before that it refuses
    data moved to it.

    Its configuration epoch will be the highest, so that there is no collision to resolve.
    Calling it for a known server changes nothing. Raises ShardError, TemporaryError.
    """
    deadline = time.monotonic() + seconds
    with clients_of([newcomer, *members], seconds, credentials) as (client, *others):
        if len(_nodes(client)) == 1:
            highest = max(int(_info(other)["cluster_current_epoch"]) for other in others)
            _call(client, "CLUSTER", "SET-CONFIG-EPOCH", highest + 1)
        _call(client, "CLUSTER", "MEET", *_place(members[0]))
        own = _text(_call(client, "CLUSTER", "MYID"))
        ids = [_text(_call(other, "CLUSTER", "MYID")) for other in others]

        def known() -> bool:
            met = all(name in _nodes(client) for name in ids) and all(own in _nodes(other) for other in others)
            return met and (not serving or _info(client)["cluster_state"] == "ok")

        with _quick_to_join(client, others[0]):
            _wait(known, deadline, f"shard {newcomer} did not join the cluster")


@contextmanager
def _quick_to_join(client: redis.Redis, member: redis.Redis) -> Iterator[None]:
    """A server without slots takes itself for cut off, and stays down for one more node timeout."""
    found = _call(member, "CONFIG", "GET", "cluster-node-timeout")  # a dict, or name and value
    usual = list(found.values() if isinstance(found, dict) else found)[-1]
    _call(client, "CONFIG", "SET", "cluster-node-timeout", _JOIN_TIMEOUT_MS)
    try:
        yield
    finally:
        _call(client, "CONFIG", "SET", "cluster-node-timeout", usual)


def replicate(replica: Address, master: Address, seconds: float = 15.0, credentials: Credentials | None = None) -> None:
    """Make the empty server at ``replica`` a replica of ``master`` (a member of a cluster) and wait for its
    first synchronization: before that it would never take over. Raises ShardError, TemporaryError."""
    deadline = time.monotonic() + seconds
    introduce(replica, [master], seconds, serving=False, credentials=credentials)
    with clients_of([replica, master], seconds, credentials) as (client, leader):
        _call(client, "CLUSTER", "REPLICATE", _text(_call(leader, "CLUSTER", "MYID")))
        _wait(lambda: in_sync(client), deadline, f"shard {replica} does not synchronize with {master}")
    wait_received({replica: master}, deadline - time.monotonic(), credentials)


def wait_received(
    followed: Mapping[Address, Address], seconds: float = 15.0, credentials: Credentials | None = None
) -> None:
    """Wait until replicas (replica -> its master) have all that their masters have written so far.

    A replica may be in sync and yet have none of it: a master keeps all back until the replica's first
    acknowledgement, sent once a second (Redis 7.0, ``repl_start_cmd_stream_on_ack``). A master that dies within
    this second would be followed by an empty one. Raises ShardError, TemporaryError.
    """
    deadline = time.monotonic() + seconds
    for replica, master in followed.items():
        with clients_of([replica, master], max(1.0, seconds), credentials) as (client, leader):
            has_all = partial(_has_received, client, _offset(leader))
            _wait(has_all, deadline, f"shard {replica} does not receive the data of {master}")


def wait_in_sync(replica: Address, seconds: float = 15.0, credentials: Credentials | None = None) -> None:
    """Wait until a server that is, or is about to become, a replica has its master's data.

    Raises ShardError, TemporaryError.
    """
    with clients_of([replica], seconds, credentials) as (client,):
        _wait(lambda: in_sync(client), time.monotonic() + seconds, f"shard {replica} does not synchronize")


def in_sync(client: redis.Redis) -> bool:
    """Whether a replica has its master's data and a link to it (INFO replication)."""
    found = _call(client, "INFO", "replication")
    return isinstance(found, dict) and found.get("role") == "slave" and found.get("master_link_status") == "up"


def _has_received(client: redis.Redis, written: int) -> bool:
    return _offset(client) >= written


def _offset(client: redis.Redis) -> int:
    """Bytes written by a master for its replicas, or received by a replica (INFO replication)."""
    found = _call(client, "INFO", "replication")
    name = "slave_repl_offset" if found.get("role") == "slave" else "master_repl_offset"
    return int(found.get(name, 0))


@contextmanager
def clients_of(
    addresses: Sequence[Address], seconds: float, credentials: Credentials | None = None
) -> Iterator[list[redis.Redis]]:
    """A client of each shard, closed at the end. Raises ShardError if one refuses or cannot be reached,
    AdmissionError if contact with it is not permitted."""
    clients = [administer(address, min(5.0, seconds), credentials) for address in addresses]
    try:
        yield clients
    except redis.RedisError as error:
        if isinstance(error.__cause__, AdmissionError):
            raise error.__cause__ from error
        raise ShardError(f"shards {', '.join(map(str, addresses))}: {error}") from error
    finally:
        for client in clients:
            client.close()


def _wait(done: Callable[[], bool], deadline: float, problem: str) -> None:
    while not done():
        if time.monotonic() > deadline:
            raise TemporaryError(problem)
        time.sleep(0.02)


def _nodes(client: redis.Redis) -> set[str]:
    """Ids of the nodes that a shard knows permanently: without those still in a handshake."""
    raw = _call(client, "CLUSTER", "NODES")
    lines = raw.decode().splitlines() if isinstance(raw, bytes) else raw
    if isinstance(lines, dict):  # parsed by redis-py: address -> facts
        return {facts["node_id"] for facts in lines.values() if "handshake" not in facts["flags"]}
    return {line.split()[0] for line in lines if "handshake" not in line.split()[2]}


def wait_joined(clients: Sequence[redis.Redis], deadline: float, check: Callable[[], None]) -> None:
    """Wait until every shard reports the cluster as ok and complete, and knows all of ``clients``.

    Calls ``check`` between attempts, which may raise. A new shard waits two seconds by
    itself before it reports the cluster as ok (CLUSTER_WRITABLE_DELAY in Redis).
    Raises TemporaryError at ``deadline`` (of the monotonic clock).
    """
    while True:
        views = [_view(client) for client in clients]
        if all(view == ("ok", len(clients), SLOTS) for view in views):
            return
        if time.monotonic() > deadline:
            raise TemporaryError(f"shards did not form a cluster in time; their views: {views}")
        check()
        time.sleep(0.02)


def _view(client: redis.Redis) -> tuple[str, int, int]:
    """State, known nodes and assigned slots in one shard's view of the cluster."""
    text = _info(client)
    return text["cluster_state"], int(text["cluster_known_nodes"]), int(text["cluster_slots_ok"])


def _info(client: redis.Redis) -> dict[str, str]:
    raw = _call(client, "CLUSTER", "INFO")
    info = raw if isinstance(raw, dict) else dict(line.split(":", 1) for line in raw.decode().split())
    return {_text(key): _text(value) for key, value in info.items()}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _call(client: redis.Redis, *command: Any) -> Any:
    # execute_command is not annotated in every release of redis-py
    execute: Callable[..., Any] = client.execute_command
    # a number is not packed safely: acquisition.link.resp
    return execute(*[str(word) if isinstance(word, int) else word for word in command])
