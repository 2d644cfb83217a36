"""Status of each shard: INFO, owned slots, waiting frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.link.resp import Address, Connection, ReplyError, raise_for
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.servers.process import Shard
from acquisition.shards.topology import nodes
from acquisition.shards.topology.nodes import Node
from acquisition.wire import keys

MASTER, REPLICA = "master", "replica"


class ShardStatus(NamedTuple):
    """One shard now. Figures of a shard that does not answer are 0, with the reason in ``problem``.

    ``read`` and ``read_at`` set the fields shown by ``shardpulse shards status`` (``SHOWN``), acquisition.status.shards
    those shown by ``shardpulse status`` (``HEALTH``). One that ``refuses`` this user its state counts as one that does
    not answer, except for its slots, known to the others. ``pinned`` and ``cores``, allowed for its threads, are read
    from /proc, None and "" for a process of another machine (the configuration would show it, and a user who may read
    it reads passwords). ``lag_bytes`` is the part of its master's writes that a replica has yet to get, None if either
    does not answer.
    """

    address: str
    answering: bool = False
    problem: str = ""
    role: str = ""  #: MASTER, REPLICA, "" if unknown
    replica_of: str = ""  #: the address of its master
    in_sync: bool = False  #: for a replica: it has its master's data and a link to it
    lag_bytes: int | None = None
    replicas: int = 0  #: number that follow it
    slots: int = 0  #: owned, of 16384
    slots_leaving: tuple[int, ...] = ()  #: being moved to another shard
    slots_arriving: tuple[int, ...] = ()  #: being moved from another shard
    memory_bytes: int = 0
    memory_limit_bytes: int = 0  #: 0: none
    core: int = -1  #: assigned to it
    cores: str = ""
    pinned: bool | None = None  #: all of its threads, to one core
    pid: int = 0
    clients: int = 0
    commands_per_second: int = 0
    cpu_seconds: float = 0.0  #: user and system since its start
    uptime_seconds: int = 0
    version: str = ""
    clock: float = 0.0  #: its time of day, seconds since 1970; 0.0: unknown
    frames: int = 0  #: stream entries written since its start
    frames_kept: int = 0  #: raw frames in it now
    cluster_state: str = ""
    refuses: bool = False  #: it is up, but refuses this user: NOPERM, WRONGPASS

    @property
    def there(self) -> bool:
        """Whether it answers, even if only with a refusal."""
        return self.answering or self.refuses

    @property
    def slots_moving(self) -> int:
        """Number of slots moving to or from another shard."""
        return len(self.slots_leaving) + len(self.slots_arriving)

    def document(self, keys: Iterable[str]) -> dict[str, Any]:
        """Figures of the shard, for JSON; None for figures that only an answer could provide."""
        return {key: self._known(getattr(self, key)) for key in keys}

    def _known(self, figure: Any) -> Any:
        return figure if self.answering or figure or isinstance(figure, bool | str | tuple) else None


#: The keys of a shard in JSON: of ``shards status``, of shards of others, and of ``status`` and ``top``.
SHOWN = (
    "address", "pid", "core", "pinned", "answering", "problem", "slots", "memory_bytes", "memory_limit_bytes",
    "commands_per_second", "clients", "cpu_seconds", "frames", "frames_kept", "cluster_state", "role", "replica_of",
    "in_sync", "replicas", "slots_leaving", "slots_arriving",
)  # fmt: skip
SHOWN_OF_OTHERS = tuple(key for key in SHOWN if key not in ("pid", "core", "pinned"))
HEALTH = (
    "address", "answering", "problem", "role", "replica_of", "in_sync", "lag_bytes", "replicas", "slots",
    "slots_moving", "memory_bytes", "memory_limit_bytes", "cores", "pinned", "pid", "clients", "commands_per_second",
    "uptime_seconds", "version", "clock", "refuses",
)  # fmt: skip


def read(
    shards: Iterable[Shard],
    partitions: int = keys.DEFAULT_PARTITIONS,
    timeout: float = 2.0,
    credentials: Credentials | None = None,
) -> list[ShardStatus]:
    """Status of each shard, in whatever state."""
    return [_read(shard, partitions, timeout, credentials) for shard in shards]


def read_at(
    addresses: Iterable[Address], partitions: int, timeout: float = 2.0, credentials: Credentials | None = None
) -> list[ShardStatus]:
    """Status of remote shards: without process, core and pin."""
    return [_connect(address, ShardStatus(str(address)), partitions, timeout, credentials) for address in addresses]


def _read(shard: Shard, partitions: int, timeout: float, credentials: Credentials | None) -> ShardStatus:
    blank = ShardStatus(str(shard.address), pid=shard.pid, core=shard.core, pinned=shard.pinned)
    if not shard.alive:
        return blank._replace(problem="process not running")
    return _connect(shard.address, blank, partitions, timeout, credentials)


def _connect(
    address: Address, blank: ShardStatus, partitions: int, timeout: float, credentials: Credentials | None
) -> ShardStatus:
    try:
        connection = Connection(address, credentials, timeout)
    except ShardpulseError as error:
        return blank._replace(problem=str(error))
    try:
        return _ask(connection, blank, partitions)
    except ShardpulseError as error:
        return blank._replace(problem=str(error))
    finally:
        connection.close()


def _ask(connection: Connection, blank: ShardStatus, partitions: int) -> ShardStatus:
    replies = connection.pipeline([("INFO", "all"), ("CLUSTER", "INFO"), ("CLUSTER", "NODES")])
    info, cluster, members = (raise_for(reply, connection.address) for reply in replies)
    own = nodes.own(members, connection.address)
    leader = [one.address for one in nodes.others(members, connection.address) if one.id == own.master]
    figures = {**nodes.pairs(info), **nodes.pairs(cluster)}
    return blank._replace(
        answering=True,
        **common(figures, own, str(leader[0]) if leader else ""),
        cpu_seconds=float(figures["used_cpu_sys"]) + float(figures["used_cpu_user"]),
        frames=_entries_written(figures.get("cmdstat_xadd", "")),
        frames_kept=_kept(connection, own.slots, partitions),
        cluster_state=figures["cluster_state"],
    )


def common(figures: Mapping[str, str], own: Node, leader: str) -> dict[str, Any]:
    """Fields common to all listings of shards, from INFO and the shard's own view as a member; ``leader`` is the
    address of its master."""
    replica = figures.get("role") == "slave"
    return {
        "role": REPLICA if replica else MASTER,
        "replica_of": leader if replica else "",
        "in_sync": replica and figures.get("master_link_status") == "up",
        "replicas": number(figures, "connected_slaves"),
        "slots": len(own.slots),
        "slots_leaving": tuple(sorted(own.migrating)),
        "slots_arriving": tuple(sorted(own.importing)),
        "memory_bytes": number(figures, "used_memory"),
        "memory_limit_bytes": number(figures, "maxmemory"),
        "clients": number(figures, "connected_clients"),
        "commands_per_second": number(figures, "instantaneous_ops_per_sec"),
    }


def number(figures: Mapping[str, str], name: str) -> int:
    """A whole number from INFO; 0 if absent."""
    text = figures.get(name, "")
    return int(text) if text.isdigit() else 0


def _kept(connection: Connection, owned: frozenset[int], partitions: int) -> int:
    streams = [keys.raw(tag) for tag in keys.tags(partitions)]
    here = [stream for stream in streams if keys.slot_of(stream) in owned]
    lengths: list[Any] = connection.pipeline([("XLEN", stream) for stream in here]) if here else []
    return sum(length for length in lengths if not isinstance(length, ReplyError))


def _entries_written(statistics: str) -> int:
    """Number of calls with a write, from ``calls=5,usec=9,…,rejected_calls=1,failed_calls=0``."""
    counts = dict(part.split("=", 1) for part in statistics.split(",") if "=" in part)
    return int(counts.get("calls", 0)) - int(counts.get("failed_calls", 0))
