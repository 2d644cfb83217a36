from __future__ import annotations

import math
import signal
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event

from acquisition.errors import UsageError
from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.errors import ArchiveFull, ArchiveReadOnly, ArchiveRefused, ArchiveUnavailable
from filters.archive.database.store import open_store
from filters.archive.minutes.escape import signed, unescape
from filters.archive.minutes.values import (
    DAY,
    HOUR,
    MINUTE,
    Advance,
    Batch,
    Copy,
    Cursor,
    EntityEpoch,
    Episode,
    Event,
    HostRow,
    Position,
    Run,
    Statistic,
    Unprovided,
)
from tests.filters.archive.conftest import bring_up
from tests.support import postgresql as servers
from tests.support.archive_rows import BIG, HOUR_BEGAN, batch, definitions, episode, made_up, matrix, rollup, rows
from tests.support.postgresql import PostgreSQL

HOSTILE = {
    "quotes": "a'b\"c`d;--", "NUL": "a\0b", "newlines": "a\r\nb\tc\\N\\.", "long": "ä" * 5000, "rtl": "مرحبا\u202e",
    "no UTF-8": b"\xff\xfe".decode(errors="surrogateescape"), "surrogate": "\ud83d", "SUB": "\x1a0000",
    "percent": "%s%(a)s:x",
}  # fmt: skip


def test_a_commit_is_read_back(migrated: str) -> None:
    with open_store(migrated) as store:
        assert store.cursors([3, 4]) == {3: Cursor(3), 4: Cursor(4)}
        assert store.commit(batch())
        expected = Cursor(3, BIG, "1-1", b"added", (Position(BIG, 7, BIG - 1, 12),))
        assert store.cursors([3, 4]) == {3: expected, 4: Cursor(4)}
    with open_store(migrated) as again:
        assert again.cursors([3]) == {3: expected}
    with open_store(migrated, "another cluster") as other:
        assert other.cursors([3]) == {3: Cursor(3)}


def test_who_is_not_the_last_to_commit_writes_nothing(migrated: str) -> None:
    with open_store(migrated) as one, open_store(migrated) as other:
        assert one.commit(batch())
        assert other.commit(batch(BIG, 2))
        lost = batch(BIG, 4, hosts=(HostRow(1, "alpha", 1.0, 2.0),))
        ahead = lost._replace(advances=(Advance(1, 0, 9, "2-2"), *lost.advances))
        assert not one.commit(ahead)
        assert not one.commit(batch())  # nor as the first
        assert rows(migrated, "SELECT * FROM hosts") == []
        assert {key: cursor.commit_id for key, cursor in one.cursors([1, 3]).items()} == {1: 0, 3: 2}


def test_positions_are_forgotten_with_their_epochs(migrated: str) -> None:
    with open_store(migrated) as store:
        assert store.commit(batch())
        over = Position(BIG, 7, BIG - 1, 12)
        (advance,) = batch(BIG, 5).advances
        assert store.commit(Batch((advance._replace(positions=(), forgotten=(over,)),)))
        assert store.cursors([3])[3].positions == ()


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_come_back(migrated: str, name: str) -> None:
    entity = EntityEpoch(BIG, 1, 7, "vm", name, name, name, 5.0, 6.0, None, BIG, {name: name})
    wrong = Episode(1, 7, BIG, name, 3, 5.0, 6.0, 1, True, (Copy(5.0, math.nan), Copy(5.5, math.inf), Copy(6.0, -1.0)))
    with open_store(migrated, name) as store:
        assert store.commit(
            batch(
                hosts=(HostRow(BIG, name, 1.0, 2.0),), entities=(entity,), episodes=(wrong,),
                unprovided=(Unprovided(1, 7, name, 5.0),), runs=(Run("run", 1.0, name, None, {name: math.nan}),),
                events=(Event(7.0, name, BIG, None, {name: [name, math.inf]}),),
            )
        )  # fmt: skip
        assert store.cursors([3])[3].commit_id == BIG
    ((host, kept),) = rows(migrated, "SELECT host, name FROM hosts")
    assert (host, unescape(kept)) == (signed(BIG), name)
    for table, column in {"entities": "stable", "entity_names": "name", "unprovided": "metric", "runs": "command",
                          "events": "kind", "episodes": "metric", "clusters": "name"}.items():  # fmt: skip
        assert [unescape(row[0]) for row in rows(migrated, f"SELECT {column} FROM {table}")] == [name], table
    assert rows(migrated, "SELECT copies FROM episodes") == [('[[5.0, "nan"], [5.5, "inf"], [6.0, -1.0]]',)]


def test_what_is_written_again_is_one_row(migrated: str) -> None:
    gap = Event(HOUR_BEGAN + 1.5, "gap", None, None, {"frames": 3})
    first = EntityEpoch(5, 1, 7, "vm", "uuid", "e", "web", 10.0, 20.0)
    renamed = first._replace(name="db", appeared=12.0, seen=30.0, vanished=30.0)
    with open_store(migrated) as store:
        assert store.commit(batch(episodes=(episode(1), episode(2)), events=(gap, gap), entities=(first,)))
        more = (episode(1, samples=9), episode(1, samples=10))
        assert store.commit(batch(BIG, 8, episodes=more, events=(gap,), entities=(renamed,)))
    assert rows(migrated, "SELECT samples, ended FROM episodes ORDER BY 1") == [
        (3, HOUR_BEGAN + 3.5), (10, HOUR_BEGAN + 10.5)
    ]  # fmt: skip
    assert rows(migrated, "SELECT kind, details FROM events") == [("gap", '{"frames":3}')]
    assert rows(migrated, "SELECT name, appeared, last_seen, vanished FROM entities") == [("db", 10.0, 30.0, 30.0)]
    assert rows(migrated, "SELECT name FROM entity_names ORDER BY 1") == [("db",), ("web",)]


def values(url: str, level: int, metric: str = "figure_1") -> dict[tuple[int, int], tuple[float | None, ...]]:
    """The figures in the view of a level, by entity and time, doubled rows as an error."""
    found = rows(
        url, "SELECT entity, seconds, count, valid, mean, deviation, low, high, last, p95 FROM rollup_values"
        f" WHERE level = {level} AND metric = '{metric}' ORDER BY entity, seconds",
    )  # fmt: skip
    made = {(row[0], row[1]): tuple(row[2:]) for row in found}
    assert len(made) == len(found)
    return made


def check(
    url: str, level: int, samples: np.ndarray[tuple[int, ...], np.dtype[np.float32]], precise: bool, late: bool = False
) -> None:
    """The view holds the figures of all samples at this level; where some were late, ``last`` may be an older one."""
    width = level // 60
    found = values(url, level)
    assert len(found) == 2 * len(samples) // width
    for n in range(len(samples) // width):
        expected = rollup(samples[n * width : (n + 1) * width].reshape(-1, 2, 2))
        for column, entity in enumerate((BIG, 5)):
            got = found[signed(entity), HOUR_BEGAN + n * level]
            wanted = [None if math.isnan(x) else float(x) for x in expected[:, column, 1]]
            assert [x is None for x in got] == [x is None for x in wanted]
            for place, (one, other) in enumerate(zip(got, wanted, strict=True)):
                tolerance = math.inf if late and place == Statistic.LAST else 1e-5 if precise else 4e-4
                assert one == pytest.approx(other, abs=tolerance)


def test_minutes_are_read_in_sql_before_and_after_they_are_compacted(migrated: str) -> None:
    samples = made_up()
    minutes = [matrix(HOUR_BEGAN + 60 * n, part) for n, part in enumerate(samples)]
    with open_store(migrated) as store:
        assert store.commit(batch(minutes=tuple(minutes), metrics=definitions()))
        check(migrated, 60, samples, precise=True)
        assert store.compact(HOUR_BEGAN + 3 * 3600 - 1) == 0
        check(migrated, 60, samples, precise=True)
        assert store.compact(HOUR_BEGAN + 3 * 3600) == 60
        assert store.compact(HOUR_BEGAN + 3 * 3600) == 0
    assert rows(migrated, "SELECT * FROM minutes") == []
    for level in (60, 300, 3600):
        check(migrated, level, samples, precise=False)


def test_late_frames_join_their_minute_in_either_stage(migrated: str) -> None:
    samples = made_up()
    parts = [samples[:, :2], samples[:, 2:4], samples[:, 4:]]
    commit_id = 0
    with open_store(migrated) as store:
        for number, part in enumerate(parts):  # the first is there, the second is late, the third later than compaction
            late = number * part.shape[1]
            minutes = tuple(matrix(HOUR_BEGAN + 60 * n, one, tick=number + 1, late=late) for n, one in enumerate(part))
            assert store.commit(batch(commit_id, number + 1, minutes=minutes, metrics=definitions()))
            commit_id = number + 1
            if number:
                assert store.compact(HOUR_BEGAN + 9 * 3600) == 60
    for level in (60, 300, 3600):
        check(migrated, level, samples, precise=False, late=level > 60)


def test_coarse_levels_exist_once_before_compaction(migrated: str) -> None:
    samples = made_up(minutes=20)
    parts = [samples[:, :4], samples[:, 4:]]
    with open_store(migrated) as store:
        for number, part in enumerate(parts):  # the second one is late: for minutes that are in the coarser levels
            late = number * part.shape[1]
            minutes = tuple(matrix(HOUR_BEGAN + 60 * n, one, tick=number + 1, late=late) for n, one in enumerate(part))
            assert store.commit(batch(number, number + 1, minutes=minutes, metrics=definitions()))
            assert store.pass_on(HOUR_BEGAN + 12 * MINUTE) == (0 if number else 10)
        check(migrated, 60, samples, precise=True)
        check(migrated, 300, samples[:10], precise=True, late=True)
        assert store.pass_on(HOUR_BEGAN + 22 * MINUTE) == 10
        check(migrated, 300, samples, precise=True, late=True)
        found = [row[0] for row in rows(migrated, "SELECT count FROM rollup_values WHERE level = 3600")]
        assert found == [20 * samples.shape[1]] * 4
        assert store.compact(HOUR_BEGAN + 3 * HOUR) == 20
        check(migrated, 300, samples, precise=True, late=True)
        assert store.compact(HOUR_BEGAN + 2 * DAY) == 0  # of minutes: the day of the coarser ones is over
        assert rows(migrated, "SELECT * FROM five_minutes") == rows(migrated, "SELECT * FROM hours") == []
        check(migrated, 300, samples, precise=False, late=True)


def test_chunks_of_an_hour_and_of_six_lie_side_by_side(migrated: str) -> None:
    began = HOUR_BEGAN // DAY * DAY + 6 * HOUR
    samples = made_up()[:10]
    commit_id = 0
    for chunk_hours, hours in ((1, (0, 1)), (6, (2, 0)), (1, (3, 0))):
        with open_store(migrated, chunk_hours=chunk_hours) as store:
            for hour in hours:
                minutes = tuple(
                    matrix(began + hour * HOUR + 60 * n, part, tick=commit_id + 1) for n, part in enumerate(samples)
                )
                assert store.commit(batch(commit_id, commit_id + 1, minutes=minutes, metrics=definitions()))
                commit_id += 1
            assert store.compact(began + 8 * HOUR) == 20
    assert {row[0] for row in rows(migrated, "SELECT slots FROM rollups_1m")} == {60, 360}
    found = rows(migrated, "SELECT sum(count) FROM rollup_values WHERE level = 60")
    hourly = rows(migrated, "SELECT sum(count) FROM rollup_values WHERE level = 3600")
    assert found == hourly == [(6 * 10 * samples.shape[1] * 4,)]


def test_a_minute_of_the_same_batch_is_merged_too(migrated: str) -> None:
    samples = made_up(minutes=1)
    with open_store(migrated) as store:
        both = (matrix(HOUR_BEGAN, samples[0, :3], tick=1), matrix(HOUR_BEGAN, samples[0, 3:], tick=2, late=3))
        assert store.commit(batch(minutes=both, metrics=definitions()))
    check(migrated, 60, samples, precise=True)
    assert rows(migrated, "SELECT late FROM minutes") == [(3,)]


def test_what_is_too_old_is_removed(migrated: str) -> None:
    samples = made_up()
    days = [HOUR_BEGAN, HOUR_BEGAN + DAY, HOUR_BEGAN + 3 * DAY]
    with open_store(migrated) as store:
        for number, day in enumerate(days):
            minutes = tuple(matrix(day + 60 * n, part) for n, part in enumerate(samples[:10]))
            more = {"minutes": minutes, "episodes": (episode(1, day + 0.5),), "metrics": definitions()}
            assert store.commit(batch(number, number + 1, **more))
        store.compact(days[-1])
        for _ in range(9):
            store.retain(days[-1] + 7200)
        assert store.retain(days[-1] + 7200) == 0
        assert {seconds // DAY for _, seconds in values(migrated, 60)} == {days[-1] // DAY}
        assert {seconds // DAY for _, seconds in values(migrated, 3600)} == {days[0] // DAY, days[1] // DAY}
        assert len(rows(migrated, "SELECT * FROM episodes")) == 3
        while store.retain(days[-1] + 100 * DAY):
            pass
        assert rows(migrated, "SELECT * FROM episodes") == []
        minutes = (matrix(days[0], samples[0]),)
        assert store.commit(batch(3, 4, minutes=minutes))  # its part is made again


def test_places_that_are_none() -> None:
    for url in ("", "mysql://host/x", "sqlite://", "nonsense://"):
        with pytest.raises(UsageError):
            open_store(url)


def test_a_file_that_cannot_be_had_is_unavailable(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "no" / "archive.db")) as store, pytest.raises(ArchiveUnavailable) as caught:
        store.cursors([1])
    assert caught.value.passing
    assert "archive.db" in str(caught.value)


def test_a_database_that_takes_no_writes_says_so(engine_name: str, migrated: str) -> None:
    engine = make_engine(parse_url(migrated))
    if engine_name == "sqlite":
        read_only = migrated.replace("sqlite:///", "sqlite:///file:") + "?mode=ro&uri=true"
    else:
        read_only = migrated
        with engine.begin() as connection:
            connection.exec_driver_sql(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET default_transaction_read_only = on',"
                " current_database()); END $$"
            )
    engine.dispose()
    with open_store(read_only) as store, pytest.raises(ArchiveReadOnly) as caught:
        store.commit(batch())
    assert caught.value.passing


def test_a_full_disk_writes_nothing_and_passes(tmp_path: Path) -> None:
    url = bring_up(f"sqlite:///{tmp_path}/archive.db")
    minutes = tuple(matrix(HOUR_BEGAN + 60 * n, part) for n, part in enumerate(made_up()))
    with open_store(url) as store:
        limit = event.listens_for(store._engine, "connect")(
            lambda connection, _: connection.execute("PRAGMA max_page_count = 1")  # what there is, at least
        )
        with pytest.raises(ArchiveFull) as caught:
            store.commit(batch(minutes=minutes))
        assert caught.value.passing
        event.remove(store._engine, "connect", limit)
        assert store.cursors([3])[3].commit_id == 0
        assert store.commit(batch(minutes=minutes))


def test_a_server_that_is_killed_and_comes_back(postgresql: PostgreSQL) -> None:
    with servers.server() as own:
        url = bring_up(own.url(own.create()))
        with open_store(url) as store:
            assert store.commit(batch(events=(Event(1.0, "gap"),)))
            servers.stop(own, signal.SIGKILL)
            with pytest.raises(ArchiveUnavailable) as caught:
                store.commit(batch(BIG, 2, events=(Event(2.0, "gap"),)))
            assert caught.value.passing
            again = servers.start(own.directory, own.binaries)
            try:
                assert store.cursors([3])[3].commit_id == BIG
                assert store.commit(batch(BIG, 2, events=(Event(2.0, "gap"),)))
                assert rows(url, "SELECT time FROM events ORDER BY 1") == [(1.0,), (2.0,)]
            finally:
                servers.stop(again)


def test_wrong_users_are_refused(postgresql: servers.PostgreSQL) -> None:
    with open_store(postgresql.url("postgres", "nobody")) as store, pytest.raises(ArchiveRefused) as caught:
        store.cursors([1])
    assert not caught.value.passing
