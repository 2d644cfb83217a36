"""What happened is in the database once, whoever told it and however often the archiver starts again."""

from __future__ import annotations

import json

from acquisition.link import happenings
from acquisition.link.cluster import Cluster
from acquisition.link.happenings import Happening, Turn
from acquisition.wire import frame as wire
from acquisition.wire import keys, lease
from acquisition.wire.lease import Holder
from filters.archive.database.store import open_store
from tests.filters.archive.test_archive_partition import BEGAN, entries, follow, frame
from tests.support.archive_rows import rows
from tests.support.archive_scene import archiver, turn_until
from tests.support.archived import Rows

TAGS = keys.tags(keys.DEFAULT_PARTITIONS)
KINDS = "SELECT kind, host, details FROM events ORDER BY kind, time"


def happen(cluster: Cluster, *told: Happening, partition: int = 5) -> None:
    """As a service tells it."""
    assert all(isinstance(reply, int) for reply in cluster.gather(happenings.commands(TAGS[partition], told)))


def report(cluster: Cluster, phase: str) -> None:
    """As a scheduler reports a migration."""
    fields = {"vm": "uuid", "source": f"{5:016x}", "destination": f"{6:016x}", "phase": phase, "reason": ""}
    words = [word for pair in fields.items() for word in pair]
    cluster.call(keys.MIGRATIONS, "XADD", keys.MIGRATIONS, "*", *words)


def count(url: str, kind: str) -> int:
    """How many events of a kind there are."""
    return int(rows(url, f"SELECT count(*) FROM events WHERE kind = '{kind}'")[0][0])


def test_events_reach_the_database_once(cluster: Cluster, migrated: str) -> None:
    happen(cluster, Happening("hot:5", "1000", Turn.BEGIN, 1.0, "hot", f"{5:016x}", {"figures": {"mean": 0.9}}))
    report(cluster, "started")
    cluster.call(keys.MIGRATIONS, "XADD", keys.MIGRATIONS, "*", "nonsense", "x")
    report(cluster, "finished")
    for _ in range(2):
        with open_store(migrated) as store:
            follower = archiver(cluster, store)
            turn_until(follower, lambda: count(migrated, "move_done") == 1 and count(migrated, "hot") == 1)
            turn_until(follower, lambda: count(migrated, "shard") == len(TAGS))
    happen(cluster, Happening("hot:5", "", Turn.END, 9.0, "cool", f"{5:016x}"))
    with open_store(migrated) as store:
        follower = archiver(cluster, store)
        turn_until(follower, lambda: count(migrated, "cool") == 1)
    found = [(kind, host, json.loads(details)) for kind, host, details in rows(migrated, KINDS) if kind != "shard"]
    assert found == [
        ("cool", 5, {"before": "1000"}),
        ("hot", 5, {"figures": {"mean": 0.9}}),
        ("move_done", 5, {"vm": "uuid", "source": f"{5:016x}", "destination": f"{6:016x}", "reason": ""}),
        ("move_reported", 5, {"vm": "uuid", "source": f"{5:016x}", "destination": f"{6:016x}", "reason": ""}),
    ]


def test_another_worker_is_told_once_with_the_one_before(cluster: Cluster, migrated: str) -> None:
    name = keys.lease(TAGS[9])
    with open_store(migrated) as store:
        follower = archiver(cluster, store)
        for number, worker in enumerate(("one", "two", "two"), 1):
            cluster.call(name, "SET", name, lease.encode(Holder("0" * 16, 1000, worker)))
            turn_until(follower, lambda number=number: count(migrated, "worker") == min(number, 2))  # type: ignore[misc]
    details = [
        json.loads(row[0]) for row in rows(migrated, "SELECT details FROM events WHERE kind = 'worker' ORDER BY time")
    ]
    assert details == [{"now": "one", "partition": 9}, {"now": "two", "partition": 9, "before": "one"}]


def test_what_a_probe_sheds_or_loses_is_an_event_a_minute() -> None:
    kept = [frame(n, BEGAN + n) for n in range(1, 30)]
    shed = [frame(n, BEGAN + n, floor=n)._replace(hints=wire.HINT_SHEDS) for n in range(31, 51, 2)]
    lost = [frame(n, BEGAN + n)._replace(made=(n + 1) * 4) for n in range(50, 200)]  # frame 50 says: 8 samples were
    found = Rows()
    partition = follow(entries([*kept, *shed, *lost]), found)
    events = {kind: details for _, kind, _, _, details in map(json.loads, found.events)}
    assert (events["shed"]["samples"], events["shed"]["frames"]) == (40, 10)
    assert (events["loss"]["samples"], events["loss"]["frames"]) == (8, 1)
    assert found.gaps == partition.counts.gap
