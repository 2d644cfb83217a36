"""Bulk reads and writes of rows: COPY on PostgreSQL, executemany on SQLite."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np
import psycopg2
from sqlalchemy import BigInteger, Boolean, Connection, Double, Integer, LargeBinary, SmallInteger, Table
from sqlalchemy.exc import DBAPIError

from filters.archive.database import binary
from filters.archive.database.binary import Row
from filters.archive.database.schema import Array, Unsigned, metadata

#: Table -> column -> its new value when its row is written again; other columns are replaced.
_WIDENED: Mapping[str, Mapping[str, str]] = {
    "positions": {"sequence": "greatest"},
    "hosts": {"first_seen": "least", "last_seen": "greatest"},
    "entities": {"appeared": "least", "last_seen": "greatest", "moved_from": "coalesce"},
    "entity_names": {"first_seen": "least"},
    "unprovided": {"since": "least"},
    "runs": {"started": "least"},
    "episodes": {"ended": "greatest", "samples": "greatest"},
}
_PIECE = 5000  #: rows
_SQLITE = {"least": "min", "greatest": "max", "coalesce": "coalesce"}


def upsert(connection: Connection, name: str, rows: Iterable[Row]) -> None:
    """Write rows, each a tuple in the order of the columns; existing ones are widened or replaced.

    Of rows with the same key the last counts.
    """
    table = metadata.tables[name]
    width = len(table.primary_key.columns)
    unique = {row[:width]: row for row in rows}
    if not unique:
        return
    if connection.dialect.name == "postgresql":
        _merge(connection, table, list(unique.values()))
        return
    values = f"VALUES ({', '.join('?' * len(table.columns))})"
    connection.exec_driver_sql(_upsert_sql(name, values, True), list(unique.values()))


def insert(connection: Connection, name: str, rows: Iterable[Row], into: str = "") -> None:
    """Write rows with new keys, to the table ``into`` with the same columns if given."""
    table, into = metadata.tables[name], into or name
    if connection.dialect.name == "postgresql":
        _copy_in(connection, into, table, rows)
        return
    made = [tuple(_bytes(value) if isinstance(value, np.ndarray) else value for value in row) for row in rows]
    if made:
        connection.exec_driver_sql(f"INSERT INTO {into} VALUES ({', '.join('?' * len(table.columns))})", made)


def take(connection: Connection, name: str, condition: str) -> Iterator[Row]:
    """Remove and return the rows that meet a condition (of numbers only); arrays are numpy's."""
    return returned(connection, name, f"DELETE FROM {name} WHERE {condition} RETURNING *")


def returned(connection: Connection, name: str, statement: str) -> Iterator[Row]:
    """Whole rows returned by a statement (of numbers only) on a table."""
    table = metadata.tables[name]
    if connection.dialect.name == "postgresql":
        found = io.BytesIO()
        _copy(connection, f"({statement}) TO STDOUT", found)
        yield from binary.decode(_kinds(table), found.getvalue())
        return
    kinds = _kinds(table)
    for row in connection.exec_driver_sql(statement).fetchall():
        yield tuple(
            np.frombuffer(value, f"<{kind}") if isinstance(value, bytes) and kind != "b" else value
            for kind, value in zip(kinds, row, strict=True)
        )


def _merge(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Upsert on PostgreSQL, in pieces ordered by key: while the server takes one, the next is encoded."""
    staged = f"staged_{table.name}"  # per transaction, so that poolers may share connections
    connection.exec_driver_sql(f"CREATE TEMP TABLE {staged} (LIKE {table.name}) ON COMMIT DROP")
    merging = _upsert_sql(table.name, f"SELECT * FROM {staged} ORDER BY {_keys(table)}", False)
    for place, piece in enumerate(_encoded(table, rows)):
        if place:
            connection.exec_driver_sql(f"TRUNCATE {staged}")
        _copy(connection, f"{staged} FROM STDIN", io.BytesIO(piece))
        connection.exec_driver_sql(merging)


def _encoded(table: Table, rows: Sequence[Row]) -> Iterator[bytes]:
    """The rows in pieces; each is encoded in a thread while the previous one is used."""
    encode = partial(binary.encode, _kinds(table))
    if len(rows) <= _PIECE:
        yield encode(rows)
        return
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(encode, rows[:_PIECE])
        for start in range(_PIECE, len(rows), _PIECE):
            made, coming = coming, thread.submit(encode, rows[start : start + _PIECE])
            yield made.result()
        yield coming.result()


def _copy_in(connection: Connection, into: str, table: Table, rows: Iterable[Row]) -> None:
    _copy(connection, f"{into} FROM STDIN", io.BytesIO(binary.encode(_kinds(table), rows)))


def _copy(connection: Connection, what: str, file: io.BytesIO) -> None:
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor:
            cursor.copy_expert(f"COPY {what} WITH (FORMAT binary)", file)
    except psycopg2.Error as error:  # converted as by SQLAlchemy, which has not seen this statement
        raise DBAPIError.instance(f"COPY {what}", None, error, psycopg2.Error) from error


def _bytes(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


@cache
def _upsert_sql(name: str, source: str, on_sqlite: bool) -> str:
    table = metadata.tables[name]
    changes = ", ".join(
        f"{column.name} = {_change(name, column.name, on_sqlite)}" for column in table.columns if not column.primary_key
    )
    done = f"UPDATE SET {changes}" if name != "events" else "NOTHING"  # an event never changes
    return f"INSERT INTO {name} {source} ON CONFLICT ({_keys(table)}) DO {done}"


def _change(name: str, column: str, on_sqlite: bool) -> str:
    function = _WIDENED.get(name, {}).get(column)
    if function is None:
        return f"excluded.{column}"
    return f"{_SQLITE[function] if on_sqlite else function}(excluded.{column}, {name}.{column})"


def _keys(table: Table) -> str:
    return ", ".join(column.name for column in table.primary_key.columns)


@cache
def _kinds(table: Table) -> Sequence[str]:
    return [_kind(column.type) for column in table.columns]


def _kind(column: object) -> str:
    if isinstance(column, Array):
        return column.code
    for kinds, code in (
        ((BigInteger, Unsigned), "q"), ((SmallInteger,), "h"), ((Integer,), "i"), ((Double,), "d"), ((Boolean,), "?"),
        ((LargeBinary,), "b"),
    ):  # fmt: skip
        if isinstance(column, kinds):
            return code
    return "t"
