"""Readiness of started shards: each answers, is ours, and all agree."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import redis as redis_py

from acquisition.errors import CannotCreateError, ShardError, ShardpulseError
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.servers import process as shard_process
from acquisition.shards.servers.process import Shard
from acquisition.shards.topology import join as cluster_join


class PortTaken(CannotCreateError):
    """Another program took a port between the check and the start."""


def check_alive(shards: Sequence[Shard]) -> None:
    """Raise PortTaken or ShardError for a shard with an ended process, with its last words."""
    for shard in shards:
        if not shard.alive:
            words = shard_process.last_words(Path(shard.directory))
            taken = "in use" in words or "Failed listening" in words
            kind: type[ShardpulseError] = PortTaken if taken else ShardError
            raise kind(f"shard {shard.address} exited during startup: {words}")


def wait_answering(
    shard: Shard, deadline: float, check: Callable[[], None], credentials: Credentials | None = None
) -> None:
    """Wait until the server at the shard's port answers and is the process we started.

    Raises ShardError at ``deadline`` (of the monotonic clock), and the errors of ``check``, called between attempts.
    """
    with cluster_join.administer(shard.address, 0.3, credentials) as client:  # another program there may stay silent
        while True:
            with contextlib.suppress(redis_py.RedisError):
                if client.info("server")["process_id"] == shard.pid:
                    return
            check()
            if time.monotonic() > deadline:
                raise ShardError(f"shard {shard.address} does not answer")
            time.sleep(0.01)


def wait_cluster(
    shards: Sequence[Shard],
    seconds: float,
    form: Sequence[Shard] = (),
    release: tuple[int, ...] = (),
    credentials: Credentials | None = None,
) -> None:
    """Wait until all ``shards`` answer and agree on a complete cluster; the empty ones of ``form`` are first made
    its masters, and the others their replicas, in turn.

    Raises ShardError or TemporaryError if that takes longer than ``seconds``, PortTaken.
    """
    deadline = time.monotonic() + seconds

    def check() -> None:
        check_alive(shards)

    for shard in shards:
        wait_answering(shard, deadline, check, credentials)
    with cluster_join.clients_of([shard.address for shard in shards], seconds, credentials) as clients:
        if form:
            cluster_join.join(clients[: len(form)], [shard.address for shard in form], release)
            cluster_join.wait_joined(clients[: len(form)], deadline, check)
            for number, shard in enumerate(shards[len(form) :]):
                master = form[number % len(form)].address
                cluster_join.replicate(shard.address, master, deadline - time.monotonic(), credentials)
        cluster_join.wait_joined(clients, deadline, check)
