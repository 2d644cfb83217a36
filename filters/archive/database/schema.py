"""Schema of the archive's tables, and their column types.

A change needs a migration (``filters.archive.database.migrations``); a test compares both.

Times are seconds since 1970, as whole numbers if they are part of a key. Figures, ``episodes`` and ``events`` are
partitioned by time on PostgreSQL, each by the column in ``PARTITIONED``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, REAL
from sqlalchemy.types import TypeDecorator, TypeEngine

from filters.archive.minutes.escape import escape, signed, unescape, unsigned
from filters.archive.minutes.values import DAY, FIVE_MINUTES, HOUR, MINUTE, Statistic

# -- Column types: conversions between Python and the engines.


class Unsigned(TypeDecorator[int]):
    """An unsigned 64-bit id, stored as the signed bigint with the same bits."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """To SQL."""
        return None if value is None else signed(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:
        """From SQL."""
        return None if value is None else unsigned(value)


class Name(TypeDecorator[str]):
    """Any text, escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """To SQL."""
        return None if value is None else escape(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """From SQL."""
        return None if value is None else unescape(value)


class Json(TypeDecorator[Any]):
    """JSON value as text, which both engines read."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """To SQL."""
        return None if value is None else dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """From SQL."""
        return None if value is None else json.loads(value)


class Array(TypeDecorator[npt.NDArray[Any]]):
    """A row of numbers: an array in PostgreSQL, little-endian bytes in SQLite."""

    impl = LargeBinary
    cache_ok = True

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code  #: numpy's: f4, i2, i8

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Type in this engine."""
        return dialect.type_descriptor(ARRAY(_ELEMENTS[self.code]()) if dialect.name == "postgresql" else LargeBinary())

    def process_bind_param(self, value: npt.NDArray[Any] | None, dialect: Dialect) -> Any:
        """To SQL."""
        if value is None:
            return None
        return value.ravel().tolist() if dialect.name == "postgresql" else value.astype(f"<{self.code}").tobytes()

    def process_result_value(self, value: Any, dialect: Dialect) -> npt.NDArray[Any] | None:
        """From SQL: one dimension, read-only."""
        if value is None:
            return None
        return np.array(value, self.code) if dialect.name == "postgresql" else np.frombuffer(value, f"<{self.code}")


_ELEMENTS: dict[str, type[TypeEngine[Any]]] = {"f4": REAL, "i2": SmallInteger, "i8": BigInteger}


def dumps(value: Any) -> str:
    """JSON in ASCII without NaN (null instead), as ``jsonb`` and ``json_each`` require."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- Tables.

metadata = MetaData()


def _key(name: str, kind: type | object = Unsigned) -> Column[int]:
    return Column(name, kind, primary_key=True, autoincrement=False)  # type: ignore[arg-type]


def _needed(name: str, kind: object) -> Column[object]:
    return Column(name, kind, nullable=False)  # type: ignore[arg-type]


clusters = Table("clusters", metadata, _key("cluster"), _needed("name", Name))
partitions = Table(
    "partitions", metadata, _key("cluster"), _key("partition", Integer), _needed("commit_id", Unsigned),
    _needed("entry", Name), _needed("state", LargeBinary), _needed("committed", Double),
)  # fmt: skip
positions = Table(
    "positions", metadata, _key("cluster"), _key("host"), _key("resource_set", BigInteger), _key("epoch"),
    _needed("partition", Integer), _needed("sequence", BigInteger),
    Index("positions_partition", "cluster", "partition"),
)  # fmt: skip
hosts = Table(
    "hosts", metadata, _key("cluster"), _key("host"), _needed("name", Name), _needed("name_hash", BigInteger),
    _needed("first_seen", Double), _needed("last_seen", Double), Index("hosts_name", "name_hash"),
)  # fmt: skip
entities = Table(
    "entities", metadata, _key("cluster"), _key("entity"), _key("host"), _needed("resource_set", BigInteger),
    _needed("kind", Name), _needed("stable", Name), _needed("stable_hash", BigInteger), _needed("epoch", Name),
    _needed("name", Name), _needed("appeared", Double), _needed("last_seen", Double), Column("vanished", Double),
    Column("moved_from", Unsigned), _needed("labels", Json), Index("entities_stable", "stable_hash"),
)  # fmt: skip
entity_names = Table(
    "entity_names", metadata, _key("cluster"), _key("entity"), _key("name_hash", BigInteger), _needed("name", Name),
    _needed("first_seen", Double), Index("entity_names_name", "name_hash"),
)  # fmt: skip
metrics = Table(
    "metrics", metadata, _key("schema", BigInteger), _key("place", SmallInteger), _needed("resource_set", BigInteger),
    _needed("set_name", Name), _needed("name", Name), _needed("unit", Name), _needed("kind", Name),
    Column("low", Double), Column("high", Double), _needed("help", Name),
)  # fmt: skip
unprovided = Table(
    "unprovided", metadata, _key("cluster"), _key("host"), _key("resource_set", BigInteger),
    _key("metric_hash", BigInteger), _needed("metric", Name), _needed("since", Double),
)  # fmt: skip
runs = Table(
    "runs", metadata, _key("name", Name), _needed("started", Double), _needed("command", Name),
    Column("ended", Double), _needed("figures", Json),
)  # fmt: skip
episodes = Table(  # the key begins with the most distinctive columns
    "episodes", metadata, _key("host"), _key("entity"), _key("started", Double), _key("metric_hash", BigInteger),
    _key("code", SmallInteger), _key("resource_set", BigInteger), _key("cluster"), _key("day", BigInteger),
    _needed("metric", Name), _needed("ended", Double), _needed("samples", BigInteger), _needed("open", Boolean),
    _needed("copies", Json), postgresql_partition_by="RANGE (day)",
)  # fmt: skip
events = Table(
    "events", metadata, _key("day", BigInteger), _key("cluster"), _key("event"), _needed("time", Double),
    _needed("kind", Name), Column("host", Unsigned), Column("entity", Unsigned), _needed("details", Json),
    postgresql_partition_by="RANGE (day)",
)  # fmt: skip


def _statistics(code: str) -> list[Column[object]]:
    return [Column(statistic.name.lower(), Array(code)) for statistic in Statistic]


_SERIES = ("host", "resource_set", "epoch", "schema")


def _series() -> list[Column[int]]:
    return [_key(name, BigInteger if name in {"resource_set", "schema"} else Unsigned) for name in _SERIES]


def _matrices(name: str) -> Table:
    return Table(
        name, metadata, _key("cluster"), _key("minute", BigInteger), *_series(),
        _needed("tick", BigInteger), _needed("late", Integer), _needed("ids", Array("i8")), *_statistics("f4"),
        _needed("passed_on", Boolean), Column("sketch", LargeBinary), postgresql_partition_by="RANGE (minute)",
    )  # fmt: skip


#: Seconds of a level -> table of its values that are not compacted yet.
matrices = {MINUTE: _matrices("minutes"), FIVE_MINUTES: _matrices("five_minutes"), HOUR: _matrices("hours")}
_fresh = text("NOT passed_on")
Index(
    "minutes_fresh", matrices[MINUTE].c.cluster, matrices[MINUTE].c.minute,
    postgresql_where=_fresh, sqlite_where=_fresh,
)  # fmt: skip


def _rollups(name: str) -> Table:
    return Table(
        name, metadata, _key("cluster"), _key("entity"), _key("began", BigInteger), *_series(),
        _needed("slots", SmallInteger), _needed("offsets", Array("f4")), Column("steps", Array("f4")),
        *_statistics("i2"), postgresql_partition_by="RANGE (began)",
    )  # fmt: skip


#: Seconds of a level -> its table.
rollups = {level: _rollups(f"rollups_{name}") for level, name in {MINUTE: "1m", FIVE_MINUTES: "5m", HOUR: "1h"}.items()}


class Partitioning(NamedTuple):
    """Partitioning column of a table on PostgreSQL, and the width of a part in seconds."""

    column: str
    width: int


PARTITIONED = {
    "minutes": Partitioning("minute", DAY // 4),
    "five_minutes": Partitioning("minute", DAY),
    "hours": Partitioning("minute", DAY),
    "rollups_1m": Partitioning("began", DAY),
    "rollups_5m": Partitioning("began", DAY),
    "rollups_1h": Partitioning("began", 30 * DAY),
    "episodes": Partitioning("day", DAY),
    "events": Partitioning("day", 30 * DAY),
}
for _name, _part in PARTITIONED.items():
    # for finding old rows in SQLite, which has no parts
    Index(f"{_name}_age", metadata.tables[_name].c[_part.column]).ddl_if(dialect="sqlite")
