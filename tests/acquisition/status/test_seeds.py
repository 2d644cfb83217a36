"""An address that stands in the configuration and is no shard any more, beside shards that are there or dead."""

from __future__ import annotations

import os
import signal
from contextlib import closing

from acquisition.link.resp import Address
from acquisition.shards.servers.launch import Shards
from acquisition.shards.servers.status import REPLICA
from acquisition.shards.topology.nodes import Members
from acquisition.status import health
from acquisition.status import shards as status_of_shards
from acquisition.status.finding import DOWN, NOTE
from tests.support.fixture_types import StartCluster


def look(shards: Shards, nobody: Address) -> tuple[set[str], dict[str, str], str]:
    """Which shards there are, which findings about them by kind, and what is said of ``nobody``."""
    with closing(shards.connect()) as cluster, Members([shards.addresses[0], nobody]) as members:
        found = health.read(cluster, members, {})
    about = {row.about: row for row in found.findings if row.about.startswith("shard ") and row.kind in {DOWN, NOTE}}
    said = about.get(f"shard {nobody}")
    return (
        {row.address for row in found.shards},
        {name: row.kind for name, row in about.items()},
        said.text if said else "",
    )


def test_unknown_address_is_noted_while_others_serve_all(start_cluster: StartCluster) -> None:
    shards = start_cluster(3, replicas=1)
    nobody = Address("127.0.0.9", shards.addresses[0].port)
    rows, kinds, said = look(shards, nobody)
    assert str(nobody) not in rows
    assert len(rows) == 6
    assert kinds[f"shard {nobody}"] == NOTE
    assert "is not a member and does not answer (is unreachable" in said


def test_a_member_that_is_dead_stays_down_beside_it(start_cluster: StartCluster) -> None:
    shards = start_cluster(3, replicas=1)
    nobody = Address("127.0.0.9", shards.addresses[0].port)
    with Members(shards.addresses) as members:
        replica = next(row for row in status_of_shards.read(members) if row.role == REPLICA)
    os.kill(replica.pid, signal.SIGKILL)
    rows, kinds, _ = look(shards, nobody)
    assert len(rows) == 6
    assert (kinds[f"shard {replica.address}"], kinds[f"shard {nobody}"]) == (DOWN, NOTE)


def test_where_slots_are_missing_it_may_be_what_is_missing(start_cluster: StartCluster) -> None:
    shards = start_cluster(3)
    nobody = Address("127.0.0.9", shards.addresses[0].port)
    os.kill(shards.pids[2], signal.SIGKILL)
    rows, kinds, _ = look(shards, nobody)
    assert rows == {str(nobody), *map(str, shards.addresses)}
    assert kinds[f"shard {nobody}"] == kinds[f"shard {shards.addresses[2]}"] == DOWN
