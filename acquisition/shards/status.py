"""What each shard says about itself: INFO, the slots it owns, the frames that wait in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.link.credentials import Credentials
from acquisition.link.resp import Address, Connection, ReplyError, raise_for
from acquisition.shards import nodes, resilience
from acquisition.shards.process import Shard
from acquisition.wire import keys


class ShardStatus(NamedTuple):
    """One shard now. Figures of a shard that does not answer are 0 and ``problem`` says why."""

    address: str
    pid: int
    core: int
    pinned: bool  #: read back from /proc for all of its threads
    answering: bool
    problem: str = ""
    slots: int = 0  #: owned, of 16384
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    commands_per_second: int = 0
    clients: int = 0
    cpu_seconds: float = 0.0  #: user and system since its start
    frames: int = 0  #: stream entries that were written since its start
    frames_kept: int = 0  #: raw frames that lie in it now
    cluster_state: str = ""
    role: str = ""  #: ``master`` or ``replica``
    replica_of: str = ""  #: the address of its master
    in_sync: bool = False  #: a replica that has its master's data and a link to it
    replicas: int = 0  #: that follow it
    slots_leaving: tuple[int, ...] = ()  #: on their way to another shard
    slots_arriving: tuple[int, ...] = ()  #: on their way from another shard


def read(
    shards: Iterable[Shard],
    partitions: int = keys.DEFAULT_PARTITIONS,
    timeout: float = 2.0,
    credentials: Credentials | None = None,
) -> list[ShardStatus]:
    """The status of each shard, whatever state it is in."""
    return [_read(shard, partitions, timeout, credentials) for shard in shards]


def read_at(
    addresses: Iterable[Address], partitions: int, timeout: float = 2.0, credentials: Credentials | None = None
) -> list[ShardStatus]:
    """The status of shards that somebody else runs, wherever: without process, core and pin."""
    return [
        _connect(address, ShardStatus(str(address), 0, -1, False, False), partitions, timeout, credentials)
        for address in addresses
    ]


def risks(rows: Iterable[ShardStatus]) -> list[resilience.Risk]:
    """What the death of one of these shards, or of a machine, would cost."""
    return resilience.risks([
        resilience.Member(row.address, row.answering, row.role, row.slots, row.replica_of, row.in_sync) for row in rows
    ])  # fmt: skip


def _read(shard: Shard, partitions: int, timeout: float, credentials: Credentials | None) -> ShardStatus:
    blank = ShardStatus(str(shard.address), shard.pid, shard.core, shard.pinned, answering=False)
    if not shard.alive:
        return blank._replace(problem="its process is gone")
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
    figures = {**_pairs(info), **_pairs(cluster)}
    return blank._replace(
        answering=True,
        slots=len(own.slots),
        memory_bytes=int(figures["used_memory"]),
        memory_limit_bytes=int(figures["maxmemory"]),
        commands_per_second=int(figures["instantaneous_ops_per_sec"]),
        clients=int(figures["connected_clients"]),
        cpu_seconds=float(figures["used_cpu_sys"]) + float(figures["used_cpu_user"]),
        frames=_entries_written(figures.get("cmdstat_xadd", "")),
        frames_kept=_kept(connection, own.slots, partitions),
        cluster_state=figures["cluster_state"],
        role="replica" if figures["role"] == "slave" else "master",
        replica_of=str(leader[0]) if leader else "",
        in_sync=figures.get("master_link_status") == "up",
        replicas=int(figures["connected_slaves"]),
        slots_leaving=tuple(sorted(own.migrating)),
        slots_arriving=tuple(sorted(own.importing)),
    )


def _kept(connection: Connection, owned: frozenset[int], partitions: int) -> int:
    streams = [keys.raw(tag) for tag in keys.tags(partitions)]
    here = [stream for stream in streams if keys.slot_of(stream) in owned]
    lengths: list[Any] = connection.pipeline([("XLEN", stream) for stream in here]) if here else []
    return sum(length for length in lengths if not isinstance(length, ReplyError))


def _entries_written(statistics: str) -> int:
    """``calls=5,usec=9,…,rejected_calls=1,failed_calls=0``: the calls that wrote something."""
    counts = dict(part.split("=", 1) for part in statistics.split(",") if "=" in part)
    return int(counts.get("calls", 0)) - int(counts.get("failed_calls", 0))


def _pairs(text: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
    return {key: value for key, colon, value in lines if colon}
