"""Installation under test: all processes of a chaos run.

They are shards with replicas, filter workers, archivers, query services, generators and the
observer.

Every process is on a host of its own (a network namespace), so that every link can be broken by itself. ``faults`` act
on an ``Installation``.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acquisition.errors import TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.shards.servers import grants
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.reconcile import books
from acquisition.snapshot.reconcile.books import Books
from experiments.chaos import archive, host_log
from experiments.chaos.archive import ArchiveParts
from experiments.chaos.generators import GeneratorProcess
from experiments.chaos.host_log import Note
from experiments.chaos.options import Options
from experiments.chaos.service import Service
from experiments.processes.control import Child, python
from experiments.processes.waiting import eventually
from experiments.testbed import Host, Node, ReplicatedCluster, Testbed, outsider, start_cluster

_FRAMES_OF_ROOM = 1.3  #: ring size as a multiple of the frames of ``held_seconds``: rings hold tables as well
_GROWN_PORT = 7100
_QUERY_PORT = 7680
_SLOW = 0.5  #: capacity of a slow filter, as a fraction of the hosts' output at their loudest
_READER_TIMEOUT = 2.0
_RING_ROOT = Path("/dev/shm")


class Installation:
    """Running parts. Built by ``running``, which stops them. ``locks`` by (what, number) keep two faults from the same
    target."""

    def __init__(
        self,
        options: Options,
        directory: Path,
        cluster: ReplicatedCluster,
        workers: list[Service],
        generators: list[GeneratorProcess],
        archive: ArchiveParts | None,
        query_services: list[Service],
        spare: Host,
    ) -> None:
        self.options = options
        self.directory = directory
        self.cluster = cluster
        self.workers = workers
        self.generators = generators
        self.query_services = query_services
        self.spare = spare  #: the host of query services and readers
        self._archive = archive
        self._grown: list[Node] = []
        counts = {
            "shard": options.shards, "worker": options.workers, "generator": options.generators,
            "archiver": options.archivers, "database": 1, "service": options.services,
        }  # fmt: skip
        self.locks = {(on, number): threading.Lock() for on, count in counts.items() for number in range(count)}

    @property
    def archive(self) -> ArchiveParts:
        """Archivers and their database, if any."""
        assert self._archive is not None
        return self._archive

    @property
    def services(self) -> list[Service]:
        """Filter workers, archivers and query services."""
        return [*self.workers, *self.query_services, *(self._archive.archivers if self._archive is not None else ())]

    def nodes_of(self, shard: int) -> tuple[Node, Node]:
        """The two nodes of a shard, whichever of them is master."""
        return self.cluster.nodes[shard], self.cluster.nodes[shard + self.options.shards]

    def roles(self, shard: int) -> tuple[Node, Node]:
        """Current master and replica of a shard. Raises ShardpulseError if unknown."""
        masters = self.cluster.masters()
        one, other = self.nodes_of(shard)
        if (one in masters) == (other in masters):
            raise TemporaryError(f"shard {shard} has not one master: {one}, {other}")
        return (one, other) if one in masters else (other, one)

    def new_shard(self) -> Node:
        """One more node, on a host of its own, not started and in no cluster yet."""
        number = len(self._grown)
        home = self.directory / "shards" / f"grown{number}"
        memory, access = self.options.maxmemory_bytes, self.cluster.access
        self._grown.append(outsider(self.spare, home, _GROWN_PORT + number, memory, access))
        return self._grown[-1]

    def remove_grown(self) -> None:
        """End the nodes made by ``new_shard``."""
        for node in self._grown:
            node.remove()

    def connect(self, timeout: float = 1.0, user: str = grants.READER) -> Cluster:
        """A Cluster of the caller's own."""
        return self.cluster.connect(timeout, user)

    def reader(self) -> SnapshotReader:
        """A reader of the caller's own."""
        return SnapshotReader(self.connect(_READER_TIMEOUT))

    @property
    def reader_config(self) -> Path:
        """Configuration of reading commands."""
        return self.directory / "reader.toml"

    @property
    def ports(self) -> list[int]:
        """Ports of the query services, on the loopback of ``spare``."""
        return [_QUERY_PORT + number for number in range(self.options.services)]

    def is_current(self) -> bool:
        """Whether a reader sees every host as current. Raises ShardpulseError."""
        with self.reader() as reader:
            states = [block.state for block in reader.coherent().blocks]
        return states == ["current"] * self.options.hosts

    def logs(self) -> dict[int, list[Note]]:
        """Notes of all frames made so far."""
        return {host: host_log.read(log_path(self.directory, host)) for host in range(self.options.hosts)}

    def books(self) -> Books:
        """The current counts. Raises ShardpulseError if no shard answers."""
        with contextlib.closing(self.connect(5.0)) as cluster:
            return books.read(cluster, read_layout(cluster))


def log_path(directory: Path, host: int) -> Path:
    """The log of a host."""
    return directory / "hosts" / f"host{host:05d}.log"


@contextlib.contextmanager
def running(options: Options, directory: Path) -> Iterator[Installation]:
    """All parts, started. Their logs are in ``directory``; rings are on tmpfs and removed when the run ends."""
    for name in ("hosts", "workers", "generators", "archivers", "services", "shards"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        rings = Path(tempfile.mkdtemp(prefix="shardpulse-chaos-", dir=_RING_ROOT))
        stack.callback(shutil.rmtree, rings, ignore_errors=True)
        bed = stack.enter_context(Testbed(hosts=2 * options.shards))
        shards = directory / "shards"
        cluster = stack.enter_context(start_cluster(bed, shards, options.shards, 1, options.maxmemory_bytes))
        stack.callback(_keep_shard_logs, directory)
        archived = stack.enter_context(archive.running(options, directory, bed, cluster)) if options.archivers else None
        workers, spare = _workers(options, directory, bed, cluster), bed.add_host()
        services = _query_services(options, directory, spare, cluster)
        generators = _generators(options, directory, rings, bed, cluster)
        parts: list[Service] = [*workers, *services, *generators]
        for part in parts:
            stack.callback(part.stop)
            part.start()
        stack.enter_context(_start_observer(options, directory, cluster))
        installation = Installation(options, directory, cluster, workers, generators, archived, services, spare)
        stack.callback(installation.remove_grown)
        yield installation


def observations(directory: Path) -> Path:
    """The observer's output."""
    return directory / "observer.jsonl"


def _workers(options: Options, directory: Path, bed: Testbed, cluster: ReplicatedCluster) -> list[Service]:
    config = directory / "filter.toml"
    config.write_text(f"[filter]\ntau_seconds = {options.tau}\n{cluster.section(grants.FILTER)}")
    command, module = ["filter", "--config", str(config)], "acquisition"
    if options.talkative:
        capacity = _SLOW * options.load.loudest() / options.workers
        command, module = [str(capacity), "--config", str(config)], "experiments.chaos.slow_filter"
    return [
        Service(f"worker {number}", bed.add_host(), command, directory / "workers" / f"worker-{number}.log", module)
        for number in range(options.workers)
    ]


def _query_services(options: Options, directory: Path, host: Host, cluster: ReplicatedCluster) -> list[Service]:
    (directory / "reader.toml").write_text(cluster.section(grants.READER))
    made = []
    for number in range(options.services):
        config = directory / f"serve-{number}.toml"
        section = cluster.section(grants.SERVE)
        config.write_text(f'[serve]\nbind = "127.0.0.1:{_QUERY_PORT + number}"\n{section}')
        log = directory / "services" / f"service-{number}.log"
        made.append(Service(f"service {number}", host, ["serve", "--config", str(config)], log))
    return made


def _generators(
    options: Options, directory: Path, rings: Path, bed: Testbed, cluster: ReplicatedCluster
) -> list[GeneratorProcess]:
    frames = options.held_seconds * _FRAMES_OF_ROOM
    made = []
    for number in range(options.generators):
        task: dict[str, Any] = {
            "load": options.load_arguments,
            "shards": [str(address) for address in cluster.addresses],
            "credentials": cluster.access.credentials(grants.PROBE),
            "hosts": list(range(number, options.hosts, options.generators)),
            "rings": str(rings),
            "logs": str(directory / "hosts"),
            "ring_bytes": int(frames * options.load.frame_bytes()),
            "held_seconds": options.held_seconds,
        }
        log = directory / "generators" / f"generator-{number}.log"
        made.append(GeneratorProcess(number, bed.add_host(), task, log))
    return made


def _start_observer(options: Options, directory: Path, cluster: ReplicatedCluster) -> Child:
    config = directory / "observer.toml"
    config.write_text(cluster.section(grants.READER, "timeout_seconds = 0.5\n"))
    arguments = [str(observations(directory)), str(options.hosts), str(config), str(options.load.set_id)]
    with (directory / "observer.log").open("ab") as log:
        return Child("observer", python("experiments.chaos.observer", *arguments), stderr=log)


def _keep_shard_logs(directory: Path) -> None:
    """Copy the logs of all redis-servers to a place where they are kept."""
    (directory / "redis").mkdir(exist_ok=True)
    for path in (directory / "shards").glob("*/redis.log"):
        with contextlib.suppress(OSError):
            shutil.copyfile(path, directory / "redis" / f"{path.parent.name}.log")


def drain(installation: Installation, seconds: float) -> float:
    """Wait until the counts show nothing pending and everything applied; returns the seconds taken. Raises
    TemporaryError with the missing samples after ``seconds``."""
    began = time.monotonic()
    made = {host: sum(note.samples for note in notes) for host, notes in installation.logs().items()}

    def obstacle() -> str:
        try:
            found = installation.books()
        except Exception as error:  # any error may be temporary
            return str(error) or repr(error)
        missing = sum(made.values()) - sum(account.before + account.applied for account in found.accounts)
        if installation.options.talkative:  # shed samples
            missing -= sum(account.lost for account in found.accounts)
        pending = sum(account.pending for account in found.accounts)
        if missing or pending or found.unreadable:
            unread = len(found.unreadable)
            return f"{missing} samples are not applied, {pending} are pending, {unread} partitions cannot be read"
        return ""

    eventually(lambda: not obstacle(), seconds, lambda: f"not drained after {seconds:g} s: {obstacle()}")
    return time.monotonic() - began
