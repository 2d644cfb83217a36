"""Matrices of minutes: reads from and writes to their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, text

from filters.archive.database import records, writing
from filters.archive.database.schema import matrices
from filters.archive.minutes.merging import coarser, merge
from filters.archive.minutes.values import FIVE_MINUTES, HOUR, MinuteMatrix

COARSER = (FIVE_MINUTES, HOUR)
_KEYS_AT_ONCE = 500
_LOCK = text("SELECT pg_advisory_xact_lock(hashtext('shardpulse coarser'), :cluster)")


def lock(connection: Connection, cluster: int) -> None:
    """Lock the coarser levels until the end of the transaction: their matrices are read, merged and written."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"cluster": cluster % (1 << 31)})


def write_coarser(connection: Connection, cluster: int, minutes: Iterable[Sequence[MinuteMatrix]]) -> None:
    """Add minutes, series by series, to the coarser levels. Needs ``lock``."""
    made = list(filter(None, minutes))
    for level in COARSER:
        write(connection, cluster, level, [longer for one in made for longer in coarser(one, level)])


def write(connection: Connection, cluster: int, level: int, given: Iterable[MinuteMatrix]) -> None:
    """Write matrices of a level, merging them with existing ones of the same key. New values of a minute that is in the
    coarser levels are added there too. ``cluster`` is signed."""
    made: dict[tuple[int, ...], MinuteMatrix] = {}
    late: list[list[MinuteMatrix]] = []
    for one in given:
        if len(one.ids):
            key = records.key_of(one)
            made[key] = merge(made[key], one) if key in made else one
    if any(one.late for one in made.values()):  # before any row is locked: no deadlock
        lock(connection, cluster)
    keys = list(made)
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        for known in take(connection, level, _are(cluster, keys[start : start + _KEYS_AT_ONCE])):
            key = records.key_of(known)
            late += [[made[key]]] if known.passed_on else []
            made[key] = merge(known, made[key])
    writing.insert(connection, matrices[level].name, (records.minute_row(one, cluster) for one in made.values()))
    if late:
        write_coarser(connection, cluster, late)


def take(connection: Connection, level: int, condition: str) -> Iterator[MinuteMatrix]:
    """Remove and return the matrices that meet a condition (of numbers only)."""
    return map(records.minute_of, writing.take(connection, matrices[level].name, condition))


def _are(cluster: int, keys: list[tuple[int, ...]]) -> str:
    minutes = ", ".join(str(minute) for minute in {key[0] for key in keys})
    rows = ", ".join(map(str, keys))
    return (
        f"cluster = {cluster} AND minute IN ({minutes})"
        f" AND (minute, host, resource_set, epoch, schema) IN (VALUES {rows})"
    )
