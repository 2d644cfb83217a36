"""The archiver when its database fails over, is full, is behind a pooler or is being migrated; clocks are stepped."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from acquisition.config.settings import Settings
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.log import TroubleLog
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot.reconcile import registered
from acquisition.snapshot.reconcile.registered import Registered
from acquisition.wire import keys
from filters.archive import run_command
from filters.archive.database import engine
from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.migrating import migrate
from filters.archive.database.store import open_store
from filters.archive.following import claims
from filters.archive.following import follower as follower_module
from filters.archive.following.follower import Follower
from filters.archive.run_command import Upkeep
from tests.filters.archive.conftest import bring_up
from tests.support import postgresql as servers
from tests.support.archive_rows import rows
from tests.support.archive_scene import Streams, archiver, turn_until
from tests.support.cutting_relay import cutting
from tests.support.postgresql import PostgreSQL
from tests.support.processes import started
from tests.support.small_disk import full, small_disk
from tests.support.waiting import PATIENCE, eventually

PER_SECOND = 12  #: samples of all hosts
GRACE = 0.2


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tries again and says so sooner than in operation."""
    monkeypatch.setattr(follower_module, "_RETRY", 0.05)
    monkeypatch.setattr(follower_module, "_LONGEST_RETRY", 0.2)
    monkeypatch.setattr(claims, "EVERY", 0.2)


def archived(follower: Follower, samples: int) -> None:
    turn_until(follower, lambda: follower.counts.archived == samples)


def told(cluster: Cluster) -> Registered:
    """What status knows of the archive."""
    (found,) = registered.read(cluster, read_layout(cluster))
    return found


@pytest.mark.slow
def test_failover_to_a_standby_that_had_not_everything(cluster: Cluster) -> None:
    """What the streams still hold is archived again, the rest is a gap with its count; another archiver than the one
    that committed it sees that the database went back, by what was claimed."""
    streams = Streams(cluster)
    with servers.server() as primary, servers.standby(primary) as standby:
        name = primary.create()
        bring_up(primary.url(name))
        url = f"postgresql://postgres@/{name}?host={primary.directory},{standby.directory}"
        with open_store(f"{url}&target_session_attrs=read-write") as store:
            one = archiver(cluster, store, "one", grace=GRACE)
            streams.push(0, 150)
            archived(one, 150 * PER_SECOND)
            wal = rows(primary.url(), "SELECT pg_current_wal_lsn()::text")[0][0]
            replayed = f"SELECT pg_last_wal_replay_lsn() >= '{wal}'"
            eventually(lambda: rows(standby.url(), replayed) == [(True,)])
            standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
            standby.execute("SELECT pg_reload_conf()")
            eventually(lambda: rows(standby.url(), "SELECT pid FROM pg_stat_wal_receiver") == [])
            streams.push(150, 300)
            archived(one, 300 * PER_SECOND)
            servers.stop(primary, signal.SIGQUIT)
            raw = keys.raw(streams.tag(8))
            cluster.call(raw, "XTRIM", raw, "MINID", f"{streams.frames[8][250].tick * 1000}")
            standby.execute("SELECT pg_promote()")
            streams.push(300)
            other = archiver(cluster, store, "one", grace=GRACE)
            turn_until(other, lambda: sum(other.counts[:2]) == streams.samples)
            assert other.counters["went_back"] > 0
        assert other.counts.gap == 100 * 4
        events = rows(standby.url(name), "SELECT details FROM events WHERE kind = 'gap'")
        assert [json.loads(details)["samples"] for (details,) in events] == [400]
        assert rows(standby.url(name), "SELECT 1 FROM events WHERE kind = 'database_went_back'")
        streams.frames[8][150:250] = []
        streams.assert_archived(standby.url(name))


def _through_a_full_disk(cluster: Cluster, url: str, disk: Path) -> None:
    """While the disk is full the archiver waits, says so in the shards, and reads no more; then it goes on."""
    streams = Streams(cluster)
    with open_store(url) as store:
        follower = archiver(cluster, store, grace=GRACE)
        streams.push(0, 150)
        archived(follower, 150 * PER_SECOND)
        with full(disk):
            streams.push(150, 300)
            turn_until(follower, lambda: "full" in told(cluster).trouble or "No space left" in told(cluster).trouble)
            before = follower.counters["samples"]
            streams.push(300)
            for _ in range(20):
                follower.turn()
            assert follower.counters["samples"] == before
            assert sum(follower.counts) <= 300 * PER_SECOND
        archived(follower, streams.samples)
        turn_until(follower, lambda: not told(cluster).trouble)
    streams.assert_archived(url)


def test_a_full_disk_of_sqlite(cluster: Cluster, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        _through_a_full_disk(cluster, bring_up(f"sqlite:///{disk}/archive.db"), disk)


def test_a_disk_that_is_full_at_the_start(cluster: Cluster, shards: Shards, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with small_disk(tmp_path / "disk", 8) as disk, log.open("wb") as stderr:
        command = ["-m", "acquisition", "archive", "run", "--archive", f"{disk}/archive.db", "--shards"]
        with ExitStack() as stack:
            with full(disk):
                process = stack.enter_context(
                    started([sys.executable, *command, str(shards.addresses[0])], stderr=stderr)
                )
                eventually(lambda: "waiting" in log.read_text())
                assert process.poll() is None
            eventually(lambda: "following" in log.read_text(), says=log.read_text)
            process.terminate()
            assert process.wait(PATIENCE) == 0
    lines = log.read_text().splitlines()
    assert [
        "full" in lines[0],
        "waiting" in lines[0],
        "space available again" in lines[1],
        "following" in lines[2],
    ] == [True] * 4


@pytest.mark.slow
def test_a_full_disk_of_postgresql(cluster: Cluster, postgresql: PostgreSQL, template: str) -> None:
    user = postgresql.directory.stat()
    with ExitStack() as stack:
        place = stack.enter_context(servers.short_directory())
        place.chmod(0o755)
        disk = stack.enter_context(small_disk(place / "disk", 32))
        space = disk / "space"
        space.mkdir()
        os.chown(space, user.st_uid, user.st_gid)
        postgresql.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
        stack.callback(postgresql.execute, "DROP TABLESPACE small")
        postgresql.execute(f"CREATE DATABASE small TEMPLATE {template} TABLESPACE small")
        stack.callback(postgresql.execute, "DROP DATABASE small WITH (FORCE)")
        _through_a_full_disk(cluster, postgresql.url("small"), disk)


@pytest.mark.slow
def test_a_pooler_that_cuts_connections_anywhere(cluster: Cluster, postgresql: PostgreSQL, template: str) -> None:
    streams = Streams(cluster)
    name = postgresql.create(template)
    with (
        servers.short_directory() as place,
        cutting(postgresql.directory, place, 12, 30_000) as cut,
        open_store(f"postgresql://postgres@/{name}?host={place}") as store,
    ):
        follower = archiver(cluster, store, grace=GRACE)
        for first in range(0, 400, 25):
            streams.push(first, first + 25)
            archived(follower, (first + 25) * PER_SECOND)
        assert len(cut) == 12
    streams.assert_archived(postgresql.url(name))


def test_a_migration_while_the_archiver_runs(cluster: Cluster, migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a migration is under way it waits for it; of the other schema it says what to do, and waits."""
    monkeypatch.setattr(engine, "_LOCK_SECONDS", 1)
    streams = Streams(cluster)
    said: list[str] = []

    def waits(why: Callable[[str], bool]) -> None:
        said.clear()
        streams_left = follower.counts.archived
        turn_until(follower, lambda: why(told(cluster).trouble))
        assert follower.counts.archived == streams_left

    with open_store(migrated) as store:
        follower = archiver(cluster, store, said=said.append, grace=GRACE)
        streams.push(0, 150)
        archived(follower, 150 * PER_SECOND)
        migrating = make_engine(parse_url(migrated))
        with migrating.begin() as connection:
            migrate(connection, "0001")
            streams.push(150, 300)
            waits(lambda trouble: "lock" in trouble)
        waits(lambda trouble: "run `shardpulse archive migrate`" in trouble)
        with migrating.begin() as connection:
            migrate(connection)
        streams.push(300)
        archived(follower, streams.samples)
        migrating.dispose()
    streams.assert_archived(migrated)


def test_clock_and_time_zone_of_the_archiver_do_not_matter(
    cluster: Cluster, migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine is a year ahead, in a zone that is 13.75 hours off: minutes are those of the ticks, and nothing is
    removed as too old."""
    clock = time.time
    streams = Streams(cluster)
    with open_store(migrated) as store, open_store(migrated) as other, monkeypatch.context() as changed:
        follower = archiver(cluster, store, grace=GRACE)
        streams.push(0, 150)
        archived(follower, 150 * PER_SECOND)
        changed.setattr(time, "time", lambda: clock() + 365 * 86400)
        changed.setenv("TZ", "Pacific/Chatham")
        time.tzset()
        changed.setattr(run_command, "_EVERY", 0.01)
        keeping = Upkeep(other, Settings(), TroubleLog(lambda _: None), lambda: follower.clock)
        keeping.start()
        try:
            streams.push(150)
            archived(follower, streams.samples)
            eventually(lambda: rows(migrated, "SELECT 1 FROM five_minutes"), meanwhile=follower.turn)
        finally:
            keeping.stop()
    time.tzset()
    streams.assert_archived(migrated)
