"""Shard counters: entries stored, samples applied, commands, memory."""

from __future__ import annotations

from contextlib import closing
from typing import Any, NamedTuple

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import raise_for
from acquisition.wire import keys, position
from acquisition.wire.layout import Layout
from acquisition.wire.position import Position


class ShardCounts(NamedTuple):
    """Sums over all shards. ``stored_frames`` are successful XADD calls (including tables and resent frames),
    ``received_bytes`` the bytes received by the shards; the others are sums of the applied positions."""

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
    members: int  #: (host, resource set) pairs with a position
    commands: dict[str, tuple[int, int]]  #: command -> calls and microseconds of execution, I/O not included


def positions(cluster: Cluster, layout: Layout) -> dict[tuple[int, int], Position]:
    """Applied positions by host and resource set. Raises ShardError if a shard does not answer."""
    commands = [(keys.applied(tag), ("HGETALL", keys.applied(tag))) for tag in layout.tags]
    found = {}
    for reply in map(raise_for, cluster.gather(commands)):
        for member, data in zip(reply[::2], reply[1::2], strict=True):
            if (named := keys.parse_member(member)) is not None:
                found[named] = position.decode(data)
    return found


def read(cluster: Cluster) -> ShardCounts:
    """Current counts. Raises ShardError if a shard does not answer."""
    commands: dict[str, tuple[int, int]] = {}
    for lines in info(cluster, "commandstats"):
        _add_commands(commands, lines)
    received = sum(int(lines["total_net_input_bytes"]) for lines in info(cluster, "stats"))
    memory = sum(int(lines["used_memory"]) for lines in info(cluster, "memory"))
    rows = positions(cluster, read_layout(cluster)).values()
    return ShardCounts(
        commands.get("xadd", (0, 0))[0],
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
        commands,
    )


def executed(before: ShardCounts, after: ShardCounts, seconds: float) -> dict[str, dict[str, float]]:
    """Per command, the busiest first: calls per second, and the cores used to execute them."""
    rows = {}
    for name, (calls, microseconds) in after.commands.items():
        earlier = before.commands.get(name, (0, 0))
        rows[name] = {
            "calls_per_second": round((calls - earlier[0]) / seconds, 1),
            "cores": round((microseconds - earlier[1]) / 1e6 / seconds, 5),
        }
    return dict(sorted(rows.items(), key=lambda row: -row[1]["cores"])[:12])


def _add_commands(totals: dict[str, tuple[int, int]], lines: dict[str, str]) -> None:
    """Add the successful calls and the time of each command of one shard."""
    for key, text in lines.items():
        fields = dict(item.split("=") for item in text.split(","))
        name = key.removeprefix("cmdstat_")
        calls, microseconds = totals.get(name, (0, 0))
        done = int(fields["calls"]) - int(fields.get("failed_calls", 0))
        totals[name] = calls + done, microseconds + int(fields["usec"])


def info(cluster: Cluster, section: str) -> list[dict[str, str]]:
    """The ``key:value`` lines of an INFO section, of every shard."""
    replies = [reply.decode().splitlines() for reply in ask_all(cluster, "INFO", section)]
    return [dict(line.split(":", 1) for line in lines if ":" in line and line[0] != "#") for lines in replies]


def ask_all(cluster: Cluster, *command: object) -> list[Any]:
    """Answers of all shards to a command. Raises ShardError if one does not answer."""
    replies = []
    for address in cluster.masters():
        with closing(cluster.connect(address)) as connection:
            replies.append(connection.call(*command))
    return replies
