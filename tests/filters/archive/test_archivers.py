"""Several archivers share the partitions, and take over what one of them that dies had."""

from __future__ import annotations

import time

import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.snapshot.reconcile import registered
from filters.archive.database.store import open_store
from tests.filters.archive.conftest import bring_up
from tests.support.archive_scene import Streams, archiver, turn_until
from tests.support.waiting import eventually


def test_two_archivers_take_over_partitions_of_dead_third(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = bring_up(f"sqlite:///{tmp_path_factory.mktemp('archive')}/archive.db")
    streams = Streams(cluster, hosts=range(1, 7))
    streams.push(0, 200)
    layout = read_layout(cluster)
    with open_store(url) as one, open_store(url) as two, open_store(url) as three:
        live = [archiver(cluster, store, name, 2.0) for name, store in (("a", one), ("b", two), ("c", three))]

        def turn() -> None:
            for follower in live:
                follower.turn()

        def shared() -> bool:
            counts = sorted(len(follower.partitions) for follower in live)
            return sum(counts) == layout.partitions and counts[-1] - counts[0] <= 1

        eventually(shared, 60, meanwhile=turn)
        (found,) = registered.read(cluster, layout)
        assert sorted(found.processes) == ["a", "b", "c"]
        assert sum(found.processes.values()) == layout.partitions
        live.pop()  # it is turned no more
        streams.push(200)
        eventually(shared, 60, meanwhile=turn)
        eventually(lambda: sum(one.counts.archived for one in live) == streams.samples, 60, meanwhile=turn)
    streams.assert_archived(url)


def test_one_that_leaves_gives_everything_back_at_once(cluster: Cluster, migrated: str) -> None:
    with open_store(migrated) as one, open_store(migrated) as two:
        first, second = archiver(cluster, one, "a", 60.0), archiver(cluster, two, "b", 60.0)
        eventually(lambda: len(first.partitions) == 64, meanwhile=first.turn)
        first._leases.leave()
        eventually(lambda: len(second.partitions) == 64, 20, meanwhile=second.turn)


def test_archiver_finishes_whatever_the_database_is_doing(cluster: Cluster, migrated: str) -> None:
    streams = Streams(cluster, seconds=155)
    streams.push(0, 150)
    with open_store(migrated) as store:
        follower = archiver(cluster, store)
        turn_until(follower, lambda: follower.counts.archived == 150 * 12 and follower._executor.idle)
        streams.push(150)
        # as for cursors of partitions that are new to it
        follower._executor.ask(lambda _: time.sleep(0.2), lambda _: None)
        follower.finish()
        assert follower.counts == (streams.samples, 0, 0)
    streams.assert_archived(migrated)
