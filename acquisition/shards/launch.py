"""The acquisition databases of this machine: one redis-server per core, joined as a Redis Cluster.

``start_shards`` is the one way to start them, for ``shardpulse shards up``, the demo, tests and experiments:

    with start_shards(count=2, directory=Path("/tmp/x")) as shards:
        cluster = shards.connect()
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import redis as redis_py

from acquisition.errors import CannotCreateError, ConfigError, ShardError, ShardpulseError
from acquisition.link.cluster import Cluster, write_layout
from acquisition.link.endpoints import STATE_FILE
from acquisition.link.resp import Address
from acquisition.shards import interrupts, machine
from acquisition.shards import join as cluster_join
from acquisition.shards import process as shard_process
from acquisition.shards.process import Shard
from acquisition.shards.redis_binary import RedisBinary, find
from acquisition.wire.keys import DEFAULT_KEEP_TICKS, DEFAULT_PARTITIONS

_ATTEMPTS = 5
_START_SECONDS = 15.0


class PortTaken(CannotCreateError):
    """Another program took a port between our look and our start."""


class Layout(NamedTuple):
    """What ``write_layout`` stores in a new cluster."""

    partitions: int = DEFAULT_PARTITIONS
    keep_ticks: int = DEFAULT_KEEP_TICKS


class Shards:
    """Running shards and what is needed to stop them. A context manager that stops them."""

    def __init__(
        self,
        redis: RedisBinary,
        shards: Sequence[Shard],
        directory: Path,
        layout: Layout,
        children: Sequence[subprocess.Popen[bytes]] = (),
    ) -> None:
        self.redis = redis
        self.shards = tuple(shards)
        self.directory = directory
        self.layout = layout
        self._children = tuple(children)
        self._forming = False  #: some were started again and have not joined yet

    @property
    def addresses(self) -> list[Address]:
        """Where they listen, in slot order."""
        return [shard.address for shard in self.shards]

    @property
    def pids(self) -> list[int]:
        """Their process ids, in slot order."""
        return [shard.pid for shard in self.shards]

    @property
    def alive(self) -> list[Shard]:
        """Those whose process runs."""
        return [shard for shard in self.shards if shard.alive]

    def connect(self, timeout: float = 2.0) -> Cluster:
        """A Cluster of the caller's own, which the caller closes."""
        return Cluster(self.addresses, timeout=timeout)

    def add(self, shard: Shard, child: subprocess.Popen[bytes]) -> None:
        """Take in one more that this process has started."""
        self.shards += (shard,)
        self._children += (child,)

    def revive(self, seconds: float = _START_SECONDS) -> list[Shard]:
        """Start shards of this process that have died again, empty, at their old places; returns those.

        Each keeps its identity and slots, which its nodes.conf tells. Raises ShardError or
        TemporaryError when one does not come up within ``seconds``; then calling it again goes on.
        """
        dead = [number for number, shard in enumerate(self.shards) if not shard.alive and self._children]
        for number in dead:
            shard = self.shards[number]
            self._children[number].wait()
            with interrupts.deferred():
                started = shard_process.launch(self.redis, shard.address, shard.core, Path(shard.directory), tied=True)
                self.shards = (*self.shards[:number], started[0], *self.shards[number + 1 :])
                self._children = (*self._children[:number], started[1], *self._children[number + 1 :])
                _write_state(self)
        self._forming = self._forming or bool(dead)
        if self._forming:
            _form(self, join=False, seconds=seconds)
            self._forming = False
        return [self.shards[number] for number in dead]

    def stop(self, seconds: float = shard_process.STOP_SECONDS) -> None:
        """End all shards, those with SIGKILL that take longer than ``seconds``, and remove all of their
        files. Calling it again is harmless."""
        with interrupts.deferred():  # a second Ctrl-C must not leave half of them
            shard_process.stop(self.shards, self._children, seconds)
            with contextlib.suppress(OSError):  # gone already, or not ours alone: something else lies in it
                (self.directory / STATE_FILE).unlink(missing_ok=True)
                self.directory.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_shards(
    count: int = 0,
    directory: Path | str = "",
    cores: Sequence[int] = (),
    base_port: int = 0,
    maxmemory_bytes: int = 0,
    partitions: int = DEFAULT_PARTITIONS,
    keep_ticks: int = DEFAULT_KEEP_TICKS,
    host: str = "127.0.0.1",
    redis: RedisBinary | None = None,
    directives: Mapping[str, str] | None = None,
    tied: bool = True,
) -> Shards:
    """Start ``count`` shards (0: one per core), each pinned to one of ``cores`` (none: all that this
    process may use) in turn, join them, write the layout; return when every shard is healthy.

    ``directory`` holds one directory per shard and the state file; it is created.
    ``base_port`` 0 takes free ports. ``maxmemory_bytes`` 0 gives each an equal part of half of the
    machine's memory. ``directives`` add to the configuration of each redis-server. ``tied`` shards
    die with this process.
    Raises CannotCreateError (core, port, directory), UnavailableError (no server binary),
    ShardError and TemporaryError (they do not come up); then nothing is left behind.
    """
    binary = redis or find()
    chosen = list(cores) or machine.cores()
    machine.check_cores(chosen)
    count = count or len(chosen)
    memory = maxmemory_bytes or machine.memory_bytes() // 2 // count
    home = Path(directory).absolute()
    for attempt in range(_ATTEMPTS):
        ports = machine.fixed_ports(base_port, count, host) if base_port else machine.free_ports(count, host)
        places = [(Address(host, port), chosen[i % len(chosen)]) for i, port in enumerate(ports)]
        with contextlib.suppress(*([] if base_port or attempt == _ATTEMPTS - 1 else [PortTaken])):
            return _start(binary, places, home, memory, directives or {}, Layout(partitions, keep_ticks), tied)
    raise CannotCreateError("free ports were taken again and again")


def running(directory: Path) -> Shards | None:
    """The shards that the state file in ``directory`` tells of, dead ones included; None when there is none.

    Raises ConfigError when the file is damaged.
    """
    path = directory / STATE_FILE
    try:
        document = json.loads(path.read_text())
        shards = [Shard(**shard) for shard in document["shards"]]
        return Shards(RedisBinary(**document["redis"]), shards, directory, Layout(**document["layout"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"the state of the shards in {path} cannot be read: {error}") from error


def _start(
    redis: RedisBinary,
    places: Sequence[tuple[Address, int]],
    directory: Path,
    maxmemory: int,
    directives: Mapping[str, str],
    layout: Layout,
    tied: bool,
) -> Shards:
    shards = Shards(redis, [], directory, layout)
    try:
        for number, (address, core) in enumerate(places):
            home = directory / f"shard-{number}"
            shard_process.configure(redis, address, core, home, maxmemory, directives)
            with interrupts.deferred():  # or a shard could run that nobody knows of
                shards.add(*shard_process.launch(redis, address, core, home, tied))
                _write_state(shards)
        _form(shards)
    except BaseException:
        shards.stop()
        raise
    return shards


def _form(shards: Shards, join: bool = True, seconds: float = _START_SECONDS) -> None:
    """Wait for each shard, ``join`` them unless they know each other, wait for the cluster, write the layout."""
    deadline = time.monotonic() + seconds

    def check() -> None:
        for shard in shards.shards:
            if not shard.alive:
                words = shard_process.last_words(Path(shard.directory))
                taken = "in use" in words or "Failed listening" in words
                kind: type[ShardpulseError] = PortTaken if taken else ShardError
                raise kind(f"shard {shard.address} ended while it started: {words}")

    for shard in shards.shards:
        _wait_answering(shard, deadline, check)
    clients = [cluster_join.administer(address, min(5.0, seconds)) for address in shards.addresses]
    try:
        if join:
            cluster_join.join(clients, shards.addresses, shards.redis.release)
        cluster_join.wait_joined(clients, deadline, check)
    except redis_py.RedisError as error:
        raise ShardError(f"the shards cannot be joined: {error}") from error
    finally:
        for client in clients:
            client.close()
    cluster = shards.connect()
    try:
        write_layout(cluster, *shards.layout)
    finally:
        cluster.close()


def _wait_answering(shard: Shard, deadline: float, check: Callable[[], None]) -> None:
    """Wait until the server at the shard's port answers and is the process that we started."""
    with cluster_join.administer(shard.address, timeout=0.3) as client:  # another program there may stay silent
        while True:
            with contextlib.suppress(redis_py.RedisError):
                if client.info("server")["process_id"] == shard.pid:
                    return
            check()
            if time.monotonic() > deadline:
                raise ShardError(f"shard {shard.address} does not answer")
            time.sleep(0.01)


def _write_state(shards: Shards) -> None:
    """Tell the state file of the shards; a reader sees the old one or the new one."""
    document = {
        "redis": shards.redis._asdict(),
        "layout": shards.layout._asdict(),
        "shards": [shard._asdict() for shard in shards.shards],
    }
    part = shards.directory / f"{STATE_FILE}.part"
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(shards.directory / STATE_FILE)
