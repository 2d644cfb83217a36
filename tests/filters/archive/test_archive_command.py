from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import ProgrammingError

from acquisition.cli import main
from acquisition.config.archive import Archive
from acquisition.errors import EXIT_CONFIG, EXIT_NO_INPUT, EXIT_OK, EXIT_PERMISSION, EXIT_UNAVAILABLE, EXIT_USAGE
from filters.archive.database import roles
from filters.archive.database.errors import ArchiveRefused
from filters.archive.database.retention import limits
from filters.archive.database.store import Store
from filters.archive.minutes.values import DAY, Event
from filters.archive.place import store_of
from tests.support.archive_rows import HOUR_BEGAN, batch, definitions, episode, made_up, matrix, rows
from tests.support.postgresql import PostgreSQL


def test_migrate_makes_the_tables_once(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["archive", "migrate", "--archive", url]) == EXIT_OK
    assert main(["archive", "migrate", "--archive", url]) == EXIT_OK
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("previously none")
    assert second.endswith("unchanged")
    assert rows(url, "SELECT * FROM rollup_values") == []


def test_the_default_is_a_file_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["archive", "migrate"]) == EXIT_OK
    assert (tmp_path / "shardpulse" / "archive.db").exists()
    with store_of(Archive()) as store:
        assert store.commit(batch())


def test_the_configuration_says_how_long_what_is_kept() -> None:
    now = 10_000 * DAY
    kept = {table: (now - before) / DAY for table, before in limits(Archive(), now).items()}
    assert kept == {
        "minutes": 2, "rollups_1m": 2, "rollups_5m": 30, "five_minutes": 30, "rollups_1h": 730, "hours": 730,
        "episodes": 90, "events": 730,
    }  # fmt: skip
    changed = limits(Archive(minutes_days=7, events_days=1), now)
    assert (now - changed["minutes"], now - changed["events"]) == (7 * DAY, DAY)


def test_what_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "secret"
    roles_of = ["archive", "roles", "--archive", "postgresql://postgres@/x?host=/nonexistent"]
    for arguments, code, said in (
        (["archive", "migrate", "--archive", "postgresql://u:s3cret@h/x"], EXIT_USAGE, "is visible to other users"),
        (
            ["archive", "migrate", "--archive", "postgresql://u@h/x?password=s3cret"],
            EXIT_USAGE,
            "visible to other users",
        ),
        (["archive", "migrate", "--archive", "mysql://h/x"], EXIT_USAGE, "invalid archive URL mysql://"),
        (["archive", "migrate", "--archive", f"{tmp_path}/no/x.db"], EXIT_UNAVAILABLE, "unable to open"),
        (["archive", "roles", "--archive", f"{tmp_path}/x.db"], EXIT_USAGE, "roles require PostgreSQL"),
        ([*roles_of, "--writer-password-file", str(secret)], EXIT_NO_INPUT, "cannot read"),
        (roles_of, EXIT_UNAVAILABLE, "/nonexistent"),
    ):
        assert main(arguments) == code, arguments
        told = capsys.readouterr().err
        assert said in told
        assert "s3cret" not in told
    secret.write_text("s3cret\n")
    secret.chmod(0o644)
    assert main([*roles_of, "--writer-password-file", str(secret)]) == EXIT_CONFIG


@pytest.fixture
def secured(postgresql: PostgreSQL, tmp_path: Path) -> str:
    """The name of a database that the owner has migrated; each role's password is its own name."""
    name = postgresql.create()
    arguments = ["archive", "roles", "--archive", postgresql.url(name)]
    for role in roles.ROLES:
        (tmp_path / role).write_text(f"{role}\n")
        (tmp_path / role).chmod(0o600)
        arguments += [f"--{role.removeprefix('shardpulse_')}-password-file", str(tmp_path / role)]
    (tmp_path / "owner.toml").write_text(f'[archive]\npassword_file = "{tmp_path / roles.OWNER}"\n')
    owner = postgresql.url(name, roles.OWNER)
    for _ in range(2):
        assert main(arguments) == EXIT_OK
        assert main(["archive", "migrate", "--archive", owner, "--config", str(tmp_path / "owner.toml")]) == EXIT_OK
    return name


def store(postgresql: PostgreSQL, name: str, role: str, password: str = "") -> Store:
    return Store(
        make_url(postgresql.url(name, role)).set(drivername="postgresql+psycopg2", password=password or role), "x"
    )


def test_the_writer_writes_and_the_reader_reads(
    postgresql: PostgreSQL, secured: str, capsys: pytest.CaptureFixture[str]
) -> None:
    minutes = tuple(matrix(HOUR_BEGAN + 60 * n, part) for n, part in enumerate(made_up()))
    with store(postgresql, secured, roles.WRITER) as writer:
        for number in range(2):
            more = {"metrics": definitions(), "episodes": (episode(1),), "events": (Event(HOUR_BEGAN, "gap"),)}
            assert writer.commit(batch(number, number + 1, minutes=minutes, **more))
            assert writer.pass_on(HOUR_BEGAN + 2 * 3600) == 60
            assert writer.compact(HOUR_BEGAN + 9 * 3600) == 60
        writer.compact(HOUR_BEGAN + 2 * 86400)  # the day of the coarser levels
        while writer.retain(HOUR_BEGAN + 900 * 86400):
            pass
    assert rows(postgresql.url(secured), "SELECT * FROM events") == []
    with store(postgresql, secured, roles.READER) as reader:
        assert reader.cursors([3])[3].commit_id == 2
        with pytest.raises(ArchiveRefused):
            reader.commit(batch(2, 3))
        with pytest.raises(ArchiveRefused):
            reader.retain(HOUR_BEGAN)
    for role in (roles.WRITER, roles.READER):
        with pytest.raises(ArchiveRefused):
            store(postgresql, secured, role, "wrong").cursors([3])
    allowed = postgresql.url(secured)
    for role, table, right in (
        (roles.WRITER, "alembic_version", "update"), (roles.WRITER, "events", "delete"),
        (roles.WRITER, "minutes", "update"), (roles.READER, "five_minutes", "delete"),
        (roles.READER, "hosts", "insert"), (roles.READER, "partitions", "update"),
    ):  # fmt: skip
        assert rows(allowed, f"SELECT has_table_privilege('{role}', '{table}', '{right}')") == [(False,)]
    for role in (roles.WRITER, roles.READER):
        assert rows(allowed, f"SELECT has_schema_privilege('{role}', 'public', 'create')") == [(False,)]


def test_without_its_password_nobody_migrates(
    postgresql: PostgreSQL, secured: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    assert main(["archive", "migrate", "--archive", postgresql.url(secured, roles.OWNER)]) == EXIT_PERMISSION
    assert "password" in capsys.readouterr().err


INVENTORY = ("partitions", "hosts", "entities", "entity_names", "metrics", "unprovided", "runs", "episodes")
FIGURES = ("minutes", "five_minutes", "hours", "rollups_1m", "rollups_5m", "rollups_1h")
#: What the writer may with each table and view.
WRITER = {
    **dict.fromkeys(INVENTORY, "select insert update"), **dict.fromkeys(FIGURES, "select insert delete"),
    "clusters": "select insert", "events": "select insert", "positions": "select insert update delete",
    "rollup_values": "select", "alembic_version": "select",
}  # fmt: skip
FORBIDDEN = (
    "CREATE TABLE mine (n int)", "DROP TABLE runs", "ALTER TABLE runs ADD COLUMN n int", "TRUNCATE minutes",
    "CREATE ROLE other", "CREATE SCHEMA mine", "DELETE FROM events", "UPDATE alembic_version SET version_num = '1'",
    "COPY runs TO '/tmp/runs'", "COPY runs FROM PROGRAM 'true'", "SELECT pg_read_file('/etc/passwd')",
    "SET ROLE shardpulse_owner", "CREATE OR REPLACE VIEW rollup_values AS SELECT 1",
)  # fmt: skip


def test_writer_and_reader_have_these_rights_and_no_others(postgresql: PostgreSQL, secured: str) -> None:
    """A table that is new has to be thought of; what is forbidden is refused when it is tried."""
    for role, wanted in ((roles.WRITER, WRITER), (roles.READER, dict.fromkeys(WRITER, "select"))):
        rights = "'select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger'"
        found: dict[str, list[str]] = {}
        for table, right, has in rows(
            postgresql.url(secured),
            f"SELECT c.relname, r, has_table_privilege('{role}', c.oid, r) FROM pg_class c, unnest(ARRAY[{rights}])"
            " WITH ORDINALITY AS rights(r, n) WHERE relnamespace = 'public'::regnamespace"
            " AND relkind IN ('r', 'p', 'v', 'm') AND NOT relispartition ORDER BY n",
        ):
            found.setdefault(table, []).extend([right] if has else [])
        assert {table: " ".join(having) for table, having in found.items()} == wanted, role
        more = ["SELECT archive_drop_parts('minutes', 21600, 99999999999)"] if role == roles.READER else []
        with store(postgresql, secured, role) as refused:
            for statement in (*FORBIDDEN, *more):
                with pytest.raises(ProgrammingError) as caught, refused._engine.begin() as connection:
                    connection.exec_driver_sql(statement)
                assert getattr(caught.value.orig, "pgcode", None) == "42501", statement
