"""Launch of this machine's shards: one server per core, one Redis Cluster.

Servers are Redis or Valkey.

``start_shards`` is the one way to start them, for ``shardpulse shards up``, the demo, tests and experiments:

    with start_shards(count=2, directory=Path("/tmp/x")) as shards:
        cluster = shards.connect()
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from acquisition import private_files, signals
from acquisition.errors import CannotCreateError, UnavailableError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import restore_layout, write_layout
from acquisition.link.local_shards import STATE_FILE, damaged, read_state
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import ADMINISTRATOR, Credentials, local
from acquisition.shards.servers import bus, grants, machine, readiness
from acquisition.shards.servers import process as shard_process
from acquisition.shards.servers.process import Shard
from acquisition.shards.servers.readiness import PortTaken
from acquisition.shards.servers.redis_binary import RedisBinary, find
from acquisition.shards.topology import failover, join
from acquisition.wire.keys import DEFAULT_KEEP_TICKS, DEFAULT_PARTITIONS
from acquisition.wire.layout import Layout

_ATTEMPTS = 5
_PAUSE = 0.3
_START_SECONDS = 15.0


class Intent(NamedTuple):
    """Unfinished operation: ``add`` or ``remove`` of ``shard`` (a directory name), with its replicas."""

    action: str
    shard: str
    replicas: tuple[str, ...] = ()


class Shards:
    """Running shards, masters before replicas, and what is needed to stop them. As a context manager it stops them."""

    def __init__(
        self,
        redis: RedisBinary,
        shards: Sequence[Shard],
        directory: Path,
        layout: Layout,
        tied: bool = False,
        intent: Intent | None = None,
        instance: str = "",
        access: Mapping[str, str] | None = None,
    ) -> None:
        self.instance = instance or os.urandom(8).hex()
        self.redis = redis
        self.shards = tuple(shards)
        self.directory = directory
        self.layout = layout
        self.tied = tied  #: they die with the process that started them
        self.intent = intent
        self.access = dict(access or {})  #: directives for users; without any, everyone may do everything
        self._children: dict[int, subprocess.Popen[bytes]] = {}  #: of this process, by pid
        self.bus_lack = ""  #: why their bus has no TLS, if ``secure`` found that impossible
        self._forming = False  #: some were restarted and have not joined yet

    @property
    def addresses(self) -> list[Address]:
        """Their addresses, in slot order."""
        return [shard.address for shard in self.shards]

    @property
    def pids(self) -> list[int]:
        """Their process ids, in slot order."""
        return [shard.pid for shard in self.shards]

    @property
    def alive(self) -> list[Shard]:
        """Shards whose process is running."""
        return [shard for shard in self.shards if shard.alive]

    @property
    def credentials(self) -> Credentials | None:
        """Credentials of the administrator, None without users."""
        return local(str(self.directory), ADMINISTRATOR) if self.access else None

    @property
    def bus_secured(self) -> bool:
        """Whether only these shards can take part in their cluster."""
        return bus.is_secured(self.directory)

    def connect(self, timeout: float = 2.0) -> Cluster:
        """A new Cluster, as used by probe, filter and readers; the caller closes it."""
        return Cluster(self.addresses, local(str(self.directory)) if self.access else None, timeout)

    def secure(self) -> None:
        """Make users, and TLS for the cluster bus if available, before any server starts.
        Raises CannotCreateError."""
        with signals.deferred():  # else unknown files could remain
            self.access = grants.write_local(self.directory)
            try:
                self.redis = bus.write(self.directory, self.redis)
            except UnavailableError as error:
                self.bus_lack = str(error)

    def configure(self, address: Address, core: int, home: Path, maxmemory: int, directives: Mapping[str, str]) -> None:
        """Make the directory of an additional server. Raises CannotCreateError."""
        own = bus.directives(self.directory, address, self.redis.tls_module) if self.bus_secured else {}
        shard_process.configure(self.redis, address, core, home, maxmemory, {**self.access, **own, **directives})

    def start(self, address: Address, core: int, home: Path) -> Shard:
        """Start the server configured in ``home`` and add it to the state file, without waiting for it.

        An earlier one in the same directory is replaced.
        """
        with signals.deferred():  # else an unknown shard could run
            if self.bus_secured:
                bus.tell_client_ports(home)
            shard, child = shard_process.launch(self.redis, address, core, home, self.tied)
            places = [one.directory for one in self.shards]
            place = places.index(str(home)) if str(home) in places else len(places)
            self.shards = (*self.shards[:place], shard, *self.shards[place + 1 :])
            self._children[shard.pid] = child
            self.write_state()
        return shard

    def drop(self, gone: Iterable[Shard], seconds: float = shard_process.STOP_SECONDS) -> None:
        """End some shards, remove their files and forget them."""
        gone = list(gone)
        with signals.deferred():
            children = [self._children.pop(shard.pid) for shard in gone if shard.pid in self._children]
            shard_process.stop(gone, children, seconds)
            self.shards = tuple(shard for shard in self.shards if shard not in gone)
            self.write_state()

    def begin(self, intent: Intent | None) -> None:
        """Record a begun operation, so that a later command can finish it; None when it is done."""
        self.intent = intent
        self.write_state()

    def remember_record_format(self, number: int) -> None:
        """Record the record format of the present layout."""
        self.layout = self.layout._replace(record_format=number)
        self.write_state()

    def revive(self, seconds: float = _START_SECONDS) -> list[Shard]:
        """Restart dead shards, empty, at their old places; returns those.

        Each keeps its identity and slots, which are in its nodes.conf. One with replicas is started only
        after one of them has taken over, and becomes a replica, in sync. Raises ShardError or TemporaryError
        if one does not come up within ``seconds``; another call then continues.
        """
        dead = [shard for shard in self.shards if not shard.alive]
        replaced: list[Address] = []
        for shard in dead:
            child = self._children.pop(shard.pid, None)
            if child is not None:
                child.wait()
            if failover.ensure_taken_over(shard.address, [one.address for one in self.alive], self.credentials):
                replaced.append(shard.address)
            self.start(shard.address, shard.core, Path(shard.directory))
        self._forming = self._forming or bool(dead)
        if self._forming:
            readiness.wait_cluster(self.shards, seconds, credentials=self.credentials)
            for address in replaced:
                join.wait_in_sync(address, seconds, self.credentials)
            with contextlib.closing(self.connect()) as cluster:
                restore_layout(cluster, self.layout)
            self._forming = False
        return [shard for shard in self.shards if shard.directory in {one.directory for one in dead}]

    def write_state(self) -> None:
        """Write the shards into the state file; a reader sees the old one or the new one."""
        document = {
            "instance": self.instance,
            "redis": self.redis._asdict(),
            "layout": self.layout._asdict(),
            "shards": [shard._asdict() for shard in self.shards],
            "intent": self.intent._asdict() if self.intent else None,
            "secured": bool(self.access),
        }
        private_files.write(self.directory / STATE_FILE, json.dumps(document, indent=1) + "\n", replace=True)

    def stop(self, seconds: float = shard_process.STOP_SECONDS) -> None:
        """End all shards, with SIGKILL if they take longer than ``seconds``, and remove all of their
        files. Calling it again is harmless."""
        with signals.deferred():  # a second Ctrl-C must not leave half of them
            shard_process.stop(self.shards, self._children.values(), seconds)
            with contextlib.suppress(OSError):  # already gone, or shared: it contains something else
                (self.directory / STATE_FILE).unlink(missing_ok=True)
                grants.remove_local(self.directory)
                bus.remove(self.directory)
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
    choose_ports: Callable[[int, str], list[int]] | None = None,
    maxmemory_bytes: int = 0,
    partitions: int = DEFAULT_PARTITIONS,
    keep_ticks: int = DEFAULT_KEEP_TICKS,
    host: str = "127.0.0.1",
    redis: RedisBinary | None = None,
    directives: Mapping[str, str] | None = None,
    tied: bool = True,
    replicas: int = 0,
    secured: bool = False,
) -> Shards:
    """Start ``count`` shards (0: one per core), each pinned to one of ``cores`` (none: all that this
    process may use) in turn, join them, write the layout; returns when every shard is healthy.

    Each gets ``replicas`` replicas, pinned to the cores after its own; they come last in ``shards``.

    ``directory`` holds one directory per shard and the state file; it is created.
    ``choose_ports`` returns that many ports of a host (machine; by default any free ones); called again if another
    program was faster. ``maxmemory_bytes`` 0 gives each an equal part of half of the
    machine's memory. ``directives`` add to the configuration of each server. ``tied`` shards
    die with this process. ``secured`` shards have users, and nobody else has access.
    Raises CannotCreateError (core, port, directory), UnavailableError (no server binary),
    ShardError and TemporaryError (they do not come up); then nothing is left behind.
    """
    binary = redis or find()
    chosen = list(cores) or machine.cores()
    machine.check_cores(chosen)
    count = count or len(chosen)
    processes = count * (1 + replicas)
    memory = maxmemory_bytes or machine.memory_bytes() // 2 // processes
    home = Path(directory).absolute()
    for attempt in range(_ATTEMPTS):
        ports = (choose_ports or machine.free_ports)(processes, host)
        places = [(Address(host, port), chosen[(i % count + i // count) % len(chosen)]) for i, port in enumerate(ports)]
        with contextlib.suppress(*([] if attempt == _ATTEMPTS - 1 else [PortTaken])):
            shards = Shards(binary, [], home, Layout(partitions, keep_ticks), tied)
            return _start(shards, places, count, memory, directives or {}, secured)
        time.sleep(random.uniform(0.0, _PAUSE))  # the faster one may have backed off as well
    raise CannotCreateError("no free ports: candidates were taken by other processes")


def running(directory: Path) -> Shards | None:
    """Shards in the state file in ``directory``, dead ones included; None if absent.

    Raises ConfigError if the file is damaged or not trusted.
    """
    document = read_state(str(directory))
    if document is None:
        return None
    try:
        shards = [Shard(**shard) for shard in document["shards"]]
        layout = Layout(**document["layout"])
        intent = document.get("intent")
        return Shards(
            RedisBinary(**document["redis"]),
            shards,
            directory,
            layout,
            intent=Intent(**intent | {"replicas": tuple(intent["replicas"])}) if intent else None,
            instance=document["instance"],
            access=grants.read_local(directory) if document["secured"] else None,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(str(directory), error) from error


def _start(
    shards: Shards,
    places: Sequence[tuple[Address, int]],
    masters: int,
    maxmemory: int,
    directives: Mapping[str, str],
    secured: bool,
) -> Shards:
    try:
        if secured:
            shards.secure()
        for number, (address, core) in enumerate(places):
            home = shards.directory / f"shard-{number}"
            with signals.deferred():  # else an unknown directory could remain
                shards.configure(address, core, home, maxmemory, directives)
                shards.start(address, core, home)
        release, administrator = shards.redis.release, shards.credentials
        readiness.wait_cluster(shards.shards, _START_SECONDS, shards.shards[:masters], release, administrator)
        with contextlib.closing(shards.connect()) as cluster:
            write_layout(cluster, *shards.layout)
        followed = {
            one.address: shards.addresses[number % masters] for number, one in enumerate(shards.shards[masters:])
        }
        join.wait_received(followed, _START_SECONDS, administrator)
    except BaseException:
        shards.stop()
        raise
    return shards
