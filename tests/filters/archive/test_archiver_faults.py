"""The archiver when its database hangs, cuts connections, takes no writes, goes back or refuses a row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from acquisition.wire import frame as wire
from acquisition.wire import keys, readers
from acquisition.wire.readers import Cut
from filters.archive.database.store import Store, open_store
from filters.archive.following.follower import Follower
from filters.archive.following.partition import Partition, Rules
from tests.support import ROOT
from tests.support.archive_rows import rows
from tests.support.archive_scene import Streams, archiver, frame, turn_until
from tests.support.postgresql import PostgreSQL
from tests.support.waiting import eventually


@pytest.fixture
def database(postgresql: PostgreSQL, template: str) -> str:
    return postgresql.create(template)


@pytest.fixture
def store(postgresql: PostgreSQL, database: str) -> Iterator[Store]:
    with open_store(postgresql.url(database)) as found:
        yield found


def archived(follower: Follower, samples: int) -> None:
    turn_until(follower, lambda: follower.counts.archived == samples)


def hang_up(postgresql: PostgreSQL, database: str) -> None:
    postgresql.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")


@pytest.mark.slow
def test_connections_that_are_cut_and_a_database_that_takes_no_writes(
    cluster: Cluster, postgresql: PostgreSQL, database: str, store: Store
) -> None:
    streams = Streams(cluster)
    said: list[str] = []
    follower = archiver(cluster, store, said=said.append)
    streams.push(0, 150)
    archived(follower, 150 * 12)
    hang_up(postgresql, database)  # as a pooler does
    streams.push(150, 250)
    archived(follower, 250 * 12)
    postgresql.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    hang_up(postgresql, database)
    streams.push(250)
    turn_until(follower, lambda: any("read-only" in line for line in said))
    postgresql.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = off")
    hang_up(postgresql, database)
    archived(follower, streams.samples)
    streams.assert_archived(postgresql.url(database))


@pytest.mark.slow
def test_older_standby_is_refilled(cluster: Cluster, postgresql: PostgreSQL, database: str, store: Store) -> None:
    streams = Streams(cluster)
    follower = archiver(cluster, store)
    streams.push(0, 150)
    archived(follower, 150 * 12)
    hang_up(postgresql, database)
    older = postgresql.create(database)
    streams.push(150, 300)
    archived(follower, 300 * 12)
    hang_up(postgresql, database)
    postgresql.execute(f"DROP DATABASE {database} WITH (FORCE)")
    postgresql.execute(f"ALTER DATABASE {older} RENAME TO {database}")
    streams.push(300)
    turn_until(follower, lambda: follower.counters["went_back"] > 0)
    archived(follower, streams.samples)
    url = postgresql.url(database)
    assert rows(url, "SELECT DISTINCT kind FROM events WHERE kind = 'database_went_back'")
    streams.assert_archived(url)


@pytest.mark.slow
def test_an_archiver_ends_soon_while_its_database_hangs(
    cluster: Cluster, shards: Shards, postgresql: PostgreSQL, database: str
) -> None:
    streams = Streams(cluster)
    streams.push(0, 200)
    url, addresses = postgresql.url(database), ",".join(map(str, shards.addresses))
    command = [sys.executable, "-m", "acquisition", "archive", "run", "--archive", url, "--shards", addresses]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as archiving:
        try:
            eventually(lambda: bool(rows(url, "SELECT 1 FROM minutes")), 60)
            ours = rows(url, "SELECT pid FROM pg_stat_activity WHERE application_name = 'shardpulse'"
                             " AND pid <> pg_backend_pid() AND datname = current_database()")  # fmt: skip
            backends = [psutil.Process(pid) for (pid,) in ours]
            assert backends
            for one in backends:
                one.suspend()
            streams.push(200)
            key = keys.readers(streams.tag(7))
            newest = streams.frames[7][-1].tick * 1000

            def claims() -> bool:
                """It has read what is new, and says so although nothing is written."""
                return readers.decode(cluster.call(key, "HGET", key, "archive")).until >= newest

            eventually(claims, 60)
            archiving.send_signal(signal.SIGTERM)
            assert archiving.wait(30) == 0
        finally:
            archiving.kill()
            hang_up(postgresql, database)
            for one in backends:
                os.kill(one.pid, signal.SIGCONT)
    with open_store(url) as again:
        follower = archiver(cluster, again)
        archived(follower, streams.samples)
    streams.assert_archived(url)


def test_unstorable_row_is_rejected_and_others_are_stored(cluster: Cluster, migrated: str) -> None:
    streams = Streams(cluster)
    broken = {one.tick // 60 * 60: one for one in streams.frames[8] if one.tick % 60 == 0}
    (bad, *_) = sorted(broken)[1:]
    streams.push()
    with open_store(migrated) as store:
        follower = archiver(cluster, store)
        turn_until(follower, lambda: bool(follower.partitions))
        _spoil(follower, 8, bad)
        turn_until(
            follower, lambda: follower.counters["put_aside"] == 1 and sum(follower.counts[:2]) == streams.samples
        )
    (minute,) = rows(migrated, f"SELECT count(*) FROM minutes WHERE minute = {bad}")
    assert minute == (2,)  # of the other hosts
    assert rows(migrated, "SELECT kind FROM events WHERE kind = 'not_stored'") == [("not_stored",)]
    assert follower.counts.gap == 60 * 4


def _spoil(follower: Follower, host: int, minute: int) -> None:
    """Have a minute of a host come with a number of late samples that its column cannot hold."""
    number = keys.partition_of(host, keys.DEFAULT_PARTITIONS)
    partition = follower._followed[number]
    close = partition.close

    def spoilt(*arguments: object) -> object:
        batch = close(*arguments)  # type: ignore[arg-type]
        return batch._replace(
            minutes=tuple(
                one._replace(late=1 << 70) if (one.series.host, one.minute) == (host, minute) else one
                for one in batch.minutes
            )
        )

    partition.close = spoilt  # type: ignore[method-assign, assignment]


def test_what_was_cut_before_it_was_read_is_an_event(cluster: Cluster, migrated: str) -> None:
    streams = Streams(cluster, hosts=(7,))
    streams.push(0, 150)
    raw, cut = keys.raw(streams.tag(7)), keys.cut(streams.tag(7))
    with open_store(migrated) as store:
        follower = archiver(cluster, store)
        archived(follower, 150 * 4)
        streams.push(150)
        first = b"%d-7" % ((streams.began + 200) * 1000 + 500)
        cluster.call(raw, "XTRIM", raw, "MINID", first)
        cluster.call(cut, "SET", cut, readers.encode_cut(Cut(first, 49)))
        turn_until(follower, lambda: sum(follower.counts) == streams.samples)
        turn_until(follower, lambda: follower.counts.open == 0)
    found = dict(rows(migrated, "SELECT kind, count(*) FROM events GROUP BY kind"))
    assert found["cut"] == 1


def test_a_frame_that_leaps_blinds_nobody(cluster: Cluster, migrated: str) -> None:
    streams = Streams(cluster, hosts=(7,))
    streams.push(0, 150)
    raw = keys.raw(streams.tag(7))
    for n, sequence in enumerate((1 << 52, 5000)):  # what nobody could have made, and what somebody could have
        forged = streams.frames[7][149]._replace(sequence=sequence, made=20_000)
        entry = f"{forged.tick * 1000 + 600}-{n}"
        cluster.call(raw, "XADD", raw, entry, "f", wire.encode(forged))
    streams.push(150)
    with open_store(migrated) as store:
        follower = archiver(cluster, store)
        archived(follower, streams.samples + 4)
    (events,) = rows(migrated, "SELECT count(*) FROM events WHERE kind = 'implausible'")
    assert events == (1,)


def test_an_entry_at_which_anything_fails_is_put_aside_with_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = Partition(7, 64, Rules())
    taken = partition._take

    def sometimes(entry: bytes, found: wire.Frame) -> int:
        if found.sequence == 2:
            raise ZeroDivisionError("a fault of ours")
        return taken(entry, found)

    monkeypatch.setattr(partition, "_take", sometimes)
    stream = [(b"%d-0" % (1_700_000_000_000 + n), [b"f", wire.encode(frame(7, n, 1_700_000_000))]) for n in (1, 2, 3)]
    assert partition.take(stream) == 8
    (event,) = partition.close(1_700_000_500_000).events
    assert event.kind == "put_aside"
    assert event.details["entry"] == "1700000000002-0"
