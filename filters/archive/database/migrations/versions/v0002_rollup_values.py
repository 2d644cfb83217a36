"""View ``rollup_values``: one row per entity, metric, level and time.

It hides how figures are stored.

A day of one metric of one entity is read by the keys of the underlying tables. In SQLite, arithmetic extracts the
bytes of a float32 and of a code, so that every program that reads SQLite can read the view.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

_STATISTICS = ("count", "valid", "mean", "deviation", "low", "high", "last", "p95")
_MATRICES = {"minutes": 60, "five_minutes": 300, "hours": 3600}
_LEVELS = {"rollups_1m": 60, "rollups_5m": 300, "rollups_1h": 3600}
_COLUMNS = "cluster, host, entity, resource_set, metric, unit, level, time, seconds"
_NAN_CODE = -32768


def upgrade() -> None:
    """Create the view."""
    parts = _postgresql() if op.get_bind().dialect.name == "postgresql" else _sqlite()
    op.execute("CREATE VIEW rollup_values AS\n" + "\nUNION ALL\n".join(parts))


def downgrade() -> None:
    """Drop the view."""
    op.execute("DROP VIEW rollup_values")


def _postgresql() -> list[str]:
    figures = ", ".join(f"NULLIF(v.{name}, 'NaN') AS {name}" for name in _STATISTICS)
    arrays = ", ".join(f"m.{name}" for name in _STATISTICS)
    minutes = [
        f"""
SELECT m.cluster, m.host, i.entity, d.set_name AS resource_set, d.name AS metric, d.unit, {level} AS level,
       to_timestamp(m.minute) AS time, m.minute AS seconds, {figures}
FROM {table} m
CROSS JOIN LATERAL (SELECT cardinality(m.count) / NULLIF(cardinality(m.ids), 0) AS width) w
CROSS JOIN LATERAL unnest({arrays}) WITH ORDINALITY AS v({", ".join(_STATISTICS)}, n)
JOIN LATERAL unnest(m.ids) WITH ORDINALITY AS i(entity, place) ON i.place = (v.n - 1) / w.width + 1
JOIN metrics d ON d.schema = m.schema AND d.place = (v.n - 1) % w.width
WHERE v.count > 0"""
        for table, level in _MATRICES.items()
    ]
    return [*minutes, *(_postgresql_chunks(table, level) for table, level in _LEVELS.items())]


def _postgresql_chunks(table: str, level: int) -> str:
    figures = []
    for number, name in enumerate(_STATISTICS):
        at = f"{number} * (cardinality(c.offsets) / {len(_STATISTICS)}) + d.place + 1"
        code = f"c.{name}[d.place * c.slots + s.slot + 1]"
        figures.append(
            f"CASE WHEN c.{name} IS NULL THEN NULLIF(c.offsets[{at}], 'NaN')"
            f" ELSE NULLIF({code}, {_NAN_CODE}) * c.steps[{at}] + c.offsets[{at}] END AS {name}"
        )
    return f"""
SELECT * FROM (
SELECT c.cluster, c.host, c.entity, d.set_name AS resource_set, d.name AS metric, d.unit, {level} AS level,
       to_timestamp(c.began + s.slot * {level}) AS time, c.began + s.slot * {level} AS seconds,
       {", ".join(figures)}
FROM {table} c
JOIN metrics d ON d.schema = c.schema
CROSS JOIN LATERAL generate_series(0, c.slots - 1) AS s(slot)) AS chunks
WHERE count > 0"""


def _sqlite() -> list[str]:
    words = ", ".join(
        f"{_word(f'm.{name}', '(e.key * (length(m.count) * 2 / length(m.ids)) + d.place) * 4', 4)} AS {name}"
        for name in _STATISTICS
    )
    minutes = [
        f"""
SELECT * FROM (
SELECT {_COLUMNS}, {", ".join(f"{_float(name)} AS {name}" for name in _STATISTICS)} FROM (
SELECT m.cluster, m.host, {_word("m.ids", "e.key * 8", 8)} AS entity, d.set_name AS resource_set,
       d.name AS metric, d.unit, {level} AS level, datetime(m.minute, 'unixepoch') AS time, m.minute AS seconds, {words}
FROM {table} m JOIN {_numbers("length(m.ids) / 8")} e JOIN metrics d ON d.schema = m.schema
CROSS JOIN {_ALPHABET} a)) WHERE count > 0"""
        for table, level in _MATRICES.items()
    ]
    return [*minutes, *(_sqlite_chunks(table, level) for table, level in _LEVELS.items())]


def _sqlite_chunks(table: str, level: int) -> str:
    words, figures = [], []
    for number, name in enumerate(_STATISTICS):
        at = f"({number} * (length(c.offsets) / {4 * len(_STATISTICS)}) + d.place) * 4"
        words += [
            f"{_word('c.offsets', at, 4)} AS {name}_offset",
            f"{_word('c.steps', at, 4)} AS {name}_step",
            f"{_word(f'c.{name}', '(d.place * c.slots + e.key) * 2', 2)} AS {name}_code",
        ]
        offset, step, code = _float(f"{name}_offset"), _float(f"{name}_step"), f"{name}_code"
        figures.append(
            f"CASE WHEN {code} IS NULL THEN {offset} WHEN {code} = 32768 THEN NULL"
            f" ELSE ({code} - 65536 * ({code} > 32767)) * {step} + {offset} END AS {name}"
        )
    return f"""
SELECT * FROM (
SELECT {_COLUMNS}, {", ".join(figures)} FROM (
SELECT c.cluster, c.host, c.entity, d.set_name AS resource_set, d.name AS metric, d.unit, {level} AS level,
       datetime(c.began + e.key * {level}, 'unixepoch') AS time, c.began + e.key * {level} AS seconds,
       {", ".join(words)}
FROM {table} c JOIN {_numbers("c.slots")} e JOIN metrics d ON d.schema = c.schema
CROSS JOIN {_ALPHABET} a)) WHERE count > 0"""


_ALPHABET = f"(SELECT x'{bytes(range(256)).hex()}' AS bytes)"


def _numbers(count: str) -> str:
    """Rows with ``key`` 0 to ``count`` - 1."""
    return f"json_each('[' || rtrim(replace(hex(zeroblob({count})), '00', '0,'), ',') || ']')"


def _word(blob: str, at: str, size: int) -> str:
    """Little-endian number in ``size`` bytes of a blob; NULL without a blob."""
    parts = [f"((instr(a.bytes, substr({blob}, {at} + {n + 1}, 1)) - 1) << {8 * n})" for n in range(size)]
    return f"({' + '.join(parts)})"


def _float(bits: str) -> str:
    """The float32 with these bits; NULL for NaN. SQLite may lack pow()."""
    exponent = f"max(({bits} >> 23) & 255, 1)"
    mantissa = f"(({bits} & 8388607) | (8388608 * ((({bits} >> 23) & 255) > 0)))"
    scaled = (
        f"{mantissa} * 1.0 * (1 << min(max({exponent} - 150, 0), 62)) * (1 << max({exponent} - 212, 0))"
        f" / (1 << min(max(150 - {exponent}, 0), 62)) / (1 << min(max(88 - {exponent}, 0), 62))"
        f" / (1 << max(26 - {exponent}, 0))"
    )
    return f"(CASE WHEN (({bits} >> 23) & 255) < 255 THEN (1 - 2 * ({bits} >> 31)) * {scaled} END)"
