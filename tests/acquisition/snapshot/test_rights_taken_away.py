"""A reader whose user lacks a right (an upgrade with old lists of users): a host that it may not ask about is not down,
what was refused is told with shard, command, key and what to do, and with the right given back all is well again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acquisition.errors import PermissionRefused
from acquisition.link.cluster import Cluster
from acquisition.link.trust.credentials import Credentials
from acquisition.model.identity import host_id
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.values.states import CURRENT, DOWN, LATE
from tests.support.limited_user import PASSWORD, USER, limited, rule, rules
from tests.support.scene import Scene

NOW = 1_000_000.75
TICK = 999_999
DOWN_AFTER = 10.0
SILENT = "silent"
HOSTS = [f"host{number}" for number in range(6)]
SET = "host"
#: All that is read of a partition, and of the cluster.
KINDS = (
    "layout", "commit", "applied", "smoothed", "names", "raw", "lease", "began", "status", "recent",
)  # fmt: skip
COMMANDS = ("get", "mget", "getrange", "hgetall", "hmget", "xrange", "info", "time", "cluster|slots")
#: Without this nothing is lost: it is another way of reading the same.
_DISPENSABLE = {"recent"}


def allowed(without: str = "") -> list[str]:
    """The rules of the reader's user, but for one command, or one kind of key."""
    return rules(KINDS, COMMANDS, ("cluster|nodes", "ping", "set", "asking", "scan", "pttl"), without)


@pytest.fixture
def scene(shards: Shards, cluster: Cluster) -> Iterator[Scene]:
    """All hosts but one have sent the tick that is due; that one was silent for a minute."""
    scene = Scene(cluster)
    for host in HOSTS:
        scene.host(host, [TICK], resource_set=SET)
    scene.host(SILENT, [TICK - 60], resource_set=SET)
    with limited(shards, allowed()):
        yield scene


def reader(shards: Shards) -> SnapshotReader:
    cluster = Cluster(shards.addresses, Credentials(USER, PASSWORD))
    return SnapshotReader(cluster, down_after_seconds=DOWN_AFTER, clock=lambda: NOW)


def states(found: SnapshotReader, reading: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The states of hosts by name or number, and what is told."""
    snapshot = getattr(found, reading)()
    return {block.host: block.state for block in snapshot.blocks}, snapshot.errors


READINGS = ("latest", "coherent")
SEEN = {**dict.fromkeys(HOSTS, CURRENT), SILENT: DOWN}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("right", [*KINDS, *COMMANDS])
def test_without_one_right_nobody_is_down_and_nothing_looks_calm(
    scene: Scene, shards: Shards, right: str, reading: str
) -> None:
    unasked = {"getrange"} if reading == "latest" else set()  # it takes the records whole
    with reader(shards) as known:
        assert states(known, reading) == (SEEN, ())
        for address in shards.addresses:
            rule(address, *allowed(right))
        scene.host(HOSTS[0], [TICK], resource_set=SET)  # what has not changed is not asked for again
        with reader(shards) as new:
            for found in (new, known):
                try:
                    seen, told = states(found, reading)
                except PermissionRefused as error:
                    seen, told = {}, (str(error),)
                if (found is known and right in ("layout", "cluster|slots")) or right in _DISPENSABLE | unasked:
                    assert (seen, told) == (SEEN, ())  # it knows them already
                    continue
                if not (found is known and right in ("names", "began")):
                    assert told, seen
                    assert right.upper().replace("|", " ") in told[0] or f"{right}:" in told[0]
                    assert "shard 127.0.0.1:" in told[0]
                    assert "grant the user this right" in told[0]
                assert {host for host, state in seen.items() if state == DOWN} <= {SILENT, f"{host_id(SILENT):016x}"}
                if right not in ("names", "began", "hgetall"):  # of "hgetall": its partition has not changed
                    assert DOWN not in seen.values()
        for address in shards.addresses:
            rule(address, *allowed())
        with reader(shards) as new:
            assert states(new, reading) == (SEEN, ())
        seen, told = states(known, reading)  # patience with a host that could not be seen starts again
        assert (seen | {SILENT: DOWN}, told, seen[SILENT] in (LATE, DOWN)) == (SEEN, (), True)
