"""The archiver between real shards and real databases, when any of them fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys, readers
from filters.archive.database.store import open_store
from filters.archive.following.follower import Follower
from tests.filters.archive.conftest import bring_up
from tests.support import ROOT
from tests.support import postgresql as servers
from tests.support.archive_scene import (
    Streams,
    archiver,
    episodes_in,
    turn_until,
)
from tests.support.fixture_types import StartCluster
from tests.support.postgresql import PostgreSQL
from tests.support.waiting import eventually


def test_what_was_read_is_in_the_database_and_claimed_behind_it(cluster: Cluster, migrated: str) -> None:
    streams = Streams(cluster)
    streams.push()
    with open_store(migrated) as store:
        follower = archiver(cluster, store)
        turn_until(follower, lambda: follower.counts.archived == streams.samples)
    streams.assert_archived(migrated)
    assert follower.counts == (streams.samples, 0, 0)
    count, samples = episodes_in(migrated)
    assert 0 < count < samples
    key = keys.readers(streams.tag(7))
    claim = readers.decode(cluster.call(key, "HGET", key, "archive"))
    last = b"%d-71" % (streams.frames[7][-1].tick * 1000 + 500)
    assert (claim.cursor, claim.gap) == (last, 0)
    assert claim.archived == 2 * 400 * 4  # hosts 7 and 71


def test_an_archiver_that_is_killed_again_and_again_doubles_nothing(
    cluster: Cluster, shards: Shards, migrated: str
) -> None:
    streams = Streams(cluster)
    streams.push()
    addresses = ",".join(map(str, shards.addresses))
    command = [sys.executable, "-m", "tests.support.archive_scene", migrated, addresses, "10", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with open_store(migrated) as store:
        follower = archiver(cluster, store, "killed", 60.0)
        turn_until(follower, lambda: follower.counts.archived >= streams.samples)
    streams.assert_archived(migrated)


@pytest.mark.slow
def test_postgresql_is_killed_in_the_middle_of_a_batch(cluster: Cluster) -> None:
    streams = Streams(cluster, seconds=300)
    with servers.server() as database:
        url = bring_up(database.url(database.create()))
        running = database
        with open_store(url) as store:
            follower = archiver(cluster, store, read_bytes=30_000)
            for first in (0, 150):
                streams.push(first, first + 150)
                _kill_while_it_works(running, follower)
                running = servers.start(database.directory, database.binaries)
            turn_until(follower, lambda: follower.counts.archived >= streams.samples)
        streams.assert_archived(url)
        servers.stop(running)


def _kill_while_it_works(database: PostgreSQL, follower: Follower) -> None:
    """kill -9 of the server and its backends, a moment after the archiver has begun to commit what is there."""
    commits = follower.counters["commits"]
    turn_until(follower, lambda: follower.counters["commits"] > commits)
    server = psutil.Process(database.process.pid)
    everybody = [server, *server.children(recursive=True)]
    killer = threading.Timer(0.02, lambda: [one.kill() for one in everybody if one.is_running()])
    killer.start()
    eventually(lambda: database.process.poll() is not None, meanwhile=follower.turn)
    killer.join()
    psutil.wait_procs(everybody, 20)


def test_archiver_with_expired_lease_writes_nothing(cluster: Cluster, migrated: str) -> None:
    streams = Streams(cluster)
    streams.push(0, 200)
    with open_store(migrated) as one_store, open_store(migrated) as other_store:
        one = archiver(cluster, one_store, "one", term=1.0)
        other = archiver(cluster, other_store, "other", term=2.0)
        turn_until(one, lambda: one.counts.archived > 0)
        assert not other.partitions
        streams.push(200)  # one sleeps
        turn_until(other, lambda: other.counts.archived == streams.samples)
        assert len(other.partitions) == read_layout(cluster).partitions
        one._leases.turn = lambda _: False  # type: ignore[method-assign]  # it does not look whether it still has them
        turn_until(one, lambda: one.counters["overtaken"] > 0 or one.counts.archived == streams.samples)
        turn_until(one, lambda: one.counts.archived == streams.samples)
    streams.assert_archived(migrated)


def test_a_shard_that_comes_back_empty_and_is_refilled(start_cluster: StartCluster, migrated: str) -> None:
    shards = start_cluster(1)
    cluster = shards.connect()
    streams = Streams(cluster)
    streams.push(0, 250)
    with open_store(migrated) as store:
        follower = archiver(cluster, store)
        turn_until(follower, lambda: follower.counts.archived == 250 * 4 * 3)
        os.kill(shards.pids[0], signal.SIGKILL)
        eventually(lambda: not shards.shards[0].alive)
        follower.turn()
        shards.revive()
        eventually(lambda: _answers(streams))
        streams.push(150, later=-30.0)  # sent again under older ids, then what is new
        turn_until(follower, lambda: follower.counts.archived >= streams.samples)
        assert follower.counts == (streams.samples, 0, 0)
    streams.assert_archived(migrated)
    cluster.close()


def _answers(streams: Streams) -> bool:
    try:
        streams.cluster.call("x", "GET", "x")
    except ShardpulseError:
        return False
    return True


def test_a_database_that_is_away_holds_the_streams_and_nothing_else(cluster: Cluster, postgresql: PostgreSQL) -> None:
    streams = Streams(cluster)
    streams.push(0, 200)
    name = postgresql.create()
    url = postgresql.url(name)
    said: list[str] = []
    with open_store(url) as store:
        follower = archiver(cluster, store, said=said.append)
        turn_until(follower, lambda: any("archive migrate" in line for line in said))
        streams.push(200)
        bring_up(url)
        turn_until(follower, lambda: follower.counts.archived == streams.samples)
    streams.assert_archived(url)
