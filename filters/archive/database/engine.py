"""Connections to the two engines, and their errors as ours."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from acquisition.errors import UsageError
from filters.archive.database.errors import (
    ArchiveError,
    ArchiveFull,
    ArchiveReadOnly,
    ArchiveRefused,
    ArchiveRejected,
    ArchiveUnavailable,
    SchemaTooOld,
)

_CONNECT_SECONDS = 5
#: Seconds that a write waits for another writer's lock.
_LOCK_SECONDS = 5
#: An archiver that sleeps in the middle of a transaction blocks others no longer than this.
_IDLE_SECONDS = 60
_LEAST_ROOM = 1 << 16  #: bytes that SQLite needs besides its file
#: A server that vanished silently is detected within half a minute.
_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}


def parse_url(text: str) -> URL:
    """The URL in ``text``: ``sqlite:///PATH``, a plain path or ``postgresql://…``. Raises UsageError."""
    if "://" not in text:
        if not text:
            raise UsageError("no archive location: give a PATH or postgresql://…")
        return URL.create("sqlite", database=str(Path(text).absolute()))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise UsageError(f"invalid archive URL: {error}") from error
    if url.password or "password" in url.query:
        raise UsageError("a password in the archive URL is visible to other users: use ~/.pgpass or a password file")
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg2"):
        return url.set(drivername="postgresql+psycopg2")
    if url.drivername == "sqlite" and url.database:
        return url
    raise UsageError(f"invalid archive URL {url.drivername}://: expected a path, sqlite:///PATH or postgresql://…")


def make_engine(url: URL) -> Engine:
    """An engine that keeps at most one connection; it does not connect yet."""
    if url.get_backend_name() == "postgresql":
        engine = sqlalchemy.create_engine(
            url, pool_size=1, max_overflow=1, pool_pre_ping=True,
            connect_args={"connect_timeout": _CONNECT_SECONDS, "application_name": "shardpulse",
                          "client_encoding": "utf8", **_ALIVE},
        )  # fmt: skip
        event.listen(engine, "begin", _set)
        return engine
    engine = sqlalchemy.create_engine(
        url, poolclass=NullPool, connect_args={"timeout": _LOCK_SECONDS, "check_same_thread": False}
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _: object) -> None:
    connection.isolation_level = None  # so the driver begins no transaction by itself; _begin does
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # effective only before the first table
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -16384")  # KiB: keys of episodes are scattered over their index


def _set(connection: Connection) -> None:
    # per transaction: behind a pooler the next one may run in another session, which others use too
    connection.exec_driver_sql(
        f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'; SET LOCAL timezone = 'UTC';"
        f" SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'"
    )


def _begin(connection: Connection) -> None:
    # locked for writing at once: a transaction that read first could not continue after another's write
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def told(url: URL) -> Iterator[None]:
    """Translate driver errors to ArchiveError, with the place and without a password."""
    try:
        yield
    except DBAPIError as error:
        raise _ours(error, url) from error


def _ours(error: DBAPIError, url: URL) -> ArchiveError:
    place = url.render_as_string(hide_password=True)
    said = " ".join(str(error.orig).split()) or type(error.orig).__name__
    state = getattr(error.orig, "pgcode", None) or getattr(error.orig, "sqlite_errorname", None) or ""
    by_state = (kind for start, kind in _KINDS if state.startswith(start))
    by_words = (kind for words, kind in _WORDS if words in said and state in ("", "SQLITE_ERROR"))
    kind: type[ArchiveError] = [*by_state, *by_words, ArchiveError if state else ArchiveUnavailable][0]
    if kind is SchemaTooOld:
        said = "no schema yet: run `shardpulse archive migrate`"
    elif state.startswith("SQLITE_IOERR") and _no_room(url.database or ""):
        kind, said = ArchiveFull, f"{said}: the disk is full"
    return kind(f"archive {place}: {said}")


def _no_room(path: str) -> bool:
    """Whether the disk of a file is full: SQLite reports it for the file itself, not for those next to it."""
    try:
        return shutil.disk_usage(Path(path).parent).free < _LEAST_ROOM
    except OSError:
        return False


#: SQLSTATE or SQLite's name of the error, by prefix.
_KINDS: tuple[tuple[str, type[ArchiveError]], ...] = (
    ("53100", ArchiveFull), ("53", ArchiveUnavailable), ("25006", ArchiveReadOnly), ("42501", ArchiveRefused),
    ("28", ArchiveRefused), ("22", ArchiveRejected), ("23", ArchiveRejected), ("54", ArchiveRejected),
    ("25P", ArchiveUnavailable), ("58", ArchiveUnavailable), ("42P01", SchemaTooOld), ("08", ArchiveUnavailable),
    ("42P07", ArchiveUnavailable), ("57", ArchiveUnavailable), ("55", ArchiveUnavailable), ("40", ArchiveUnavailable),
    ("SQLITE_FULL", ArchiveFull),
    ("SQLITE_READONLY", ArchiveReadOnly), ("SQLITE_BUSY", ArchiveUnavailable), ("SQLITE_LOCKED", ArchiveUnavailable),
    ("SQLITE_CANTOPEN", ArchiveUnavailable), ("SQLITE_IOERR", ArchiveUnavailable), ("SQLITE_PERM", ArchiveRefused),
    ("SQLITE_AUTH", ArchiveRefused), ("SQLITE_TOOBIG", ArchiveRejected), ("SQLITE_CONSTRAINT", ArchiveRejected),
    ("SQLITE_MISMATCH", ArchiveRejected),
)  # fmt: skip
#: libpq reports failed connections only as text.
_WORDS: tuple[tuple[str, type[ArchiveError]], ...] = (
    ("password", ArchiveRefused), ("authentication failed", ArchiveRefused), ("pg_hba.conf", ArchiveRefused),
    ("does not exist", ArchiveRefused), ("no such table", SchemaTooOld),
)  # fmt: skip
