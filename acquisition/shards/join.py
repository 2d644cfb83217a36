"""Joining started shards into one Redis Cluster: slots, introductions, and waiting until all agree.

Works with Redis 6.2 and 7.x: CLUSTER ADDSLOTSRANGE where the server has it, else ADDSLOTS.
A cluster of one or two masters is legal; failover needs three (Redis Cluster specification).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from acquisition.errors import TemporaryError
from acquisition.link.resp import Address
from acquisition.wire.keys import SLOTS


def administer(address: Address, timeout: float = 5.0) -> redis.Redis:
    """A redis-py client for one shard, for administration only."""
    return redis.Redis(
        host=address.host,
        port=address.port,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
    )


def stripes(count: int) -> list[tuple[int, int]]:
    """The slots of each of ``count`` shards, inclusive: as even as 16384 allows."""
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
        _call(clients[first], "CLUSTER", "MEET", addresses[second].host, addresses[second].port)


def wait_joined(clients: Sequence[redis.Redis], deadline: float, check: Callable[[], None]) -> None:
    """Wait until every shard says that the cluster is ok, complete and known to it.

    Calls ``check`` between looks, which may raise. A new shard waits two seconds by
    itself before it calls the cluster ok (CLUSTER_WRITABLE_DELAY in Redis).
    Raises TemporaryError at ``deadline`` (of the monotonic clock).
    """
    while True:
        views = [_view(client) for client in clients]
        if all(view == ("ok", len(clients), SLOTS) for view in views):
            return
        if time.monotonic() > deadline:
            raise TemporaryError(f"the shards did not form a cluster in time; they see {views}")
        check()
        time.sleep(0.02)


def _view(client: redis.Redis) -> tuple[str, int, int]:
    """State, known nodes and assigned slots, as one shard sees the cluster."""
    raw = _call(client, "CLUSTER", "INFO")
    info = raw if isinstance(raw, dict) else dict(line.split(":", 1) for line in raw.decode().split())
    text = {_text(key): _text(value) for key, value in info.items()}
    return text["cluster_state"], int(text["cluster_known_nodes"]), int(text["cluster_slots_ok"])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _call(client: redis.Redis, *command: Any) -> Any:
    # execute_command is not annotated in every release of redis-py
    execute: Callable[..., Any] = client.execute_command
    return execute(*command)
