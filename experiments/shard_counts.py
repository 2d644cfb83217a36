"""What the shards say of themselves: entries stored, samples applied, commands, memory."""

from __future__ import annotations

from typing import NamedTuple

from acquisition import keys, position
from acquisition.cluster import Cluster, read_layout
from acquisition.position import Position
from acquisition.resp import raise_for


class ShardCounts(NamedTuple):
    """Sums over all shards. ``stored_frames`` are successful XADD calls (tables and frames that
    were sent again included), ``received_bytes`` what the shards received; the rest adds up the
    applied positions."""

    stored_frames: int
    received_bytes: int
    memory_bytes: int
    frames: int
    applied: int
    invalid: int
    lost: int
    before: int
    duplicates: int
    refused: int
    members: int  #: (host, resource set) pairs that have a position


def positions(cluster: Cluster) -> list[Position]:
    """The applied positions of all hosts."""
    layout = read_layout(cluster)
    commands = [(keys.applied(tag), ("HVALS", keys.applied(tag))) for tag in layout.tags]
    return [position.decode(data) for reply in cluster.gather(commands) for data in raise_for(reply)]


def read(cluster: Cluster) -> ShardCounts:
    """All counts now. Raises ShardError when a shard does not answer."""
    stored = received = memory = 0
    for address in cluster.masters():
        connection = cluster.connect(address)
        try:
            commands = _info(connection.call("INFO", "commandstats"))
            received += int(_info(connection.call("INFO", "stats"))["total_net_input_bytes"])
            memory += int(_info(connection.call("INFO", "memory"))["used_memory"])
        finally:
            connection.close()
        xadd = dict(item.split("=") for item in commands.get("cmdstat_xadd", "calls=0").split(","))
        stored += int(xadd["calls"]) - int(xadd.get("failed_calls", 0))
    rows = positions(cluster)
    return ShardCounts(
        stored,
        received,
        memory,
        sum(row.frames for row in rows),
        sum(row.applied for row in rows),
        sum(row.invalid for row in rows),
        sum(row.lost for row in rows),
        sum(row.before for row in rows),
        sum(row.duplicates for row in rows),
        sum(row.refused for row in rows),
        len(rows),
    )


def redis_version(cluster: Cluster) -> str:
    """The version of the first shard."""
    address = cluster.masters()[0]
    connection = cluster.connect(address)
    try:
        return _info(connection.call("INFO", "server"))["redis_version"]
    finally:
        connection.close()


def _info(reply: bytes) -> dict[str, str]:
    """The ``key:value`` lines of an INFO section."""
    lines = reply.decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))
