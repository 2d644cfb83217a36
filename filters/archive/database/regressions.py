"""Regressions: series in the archive whose level got worse, for ``status``.

They are found in the archive's hours and recorded as events in the shards.

An archiver judges after each period; a judgement depends only on the database, so
several archivers, and a restarted one, agree. Each change is reported once (``acquisition.link.happenings``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, text

from acquisition.config.regression import Regression as Settings
from acquisition.link import happenings
from acquisition.link.cluster import Cluster, Command
from acquisition.link.happenings import Happening, Turn
from acquisition.link.resp import raise_for
from acquisition.model.identity import identity
from acquisition.terminal import printable
from acquisition.wire import keys, regressions
from acquisition.wire.regressions import PREFIX, Regression
from filters.archive.database import compaction, records, writing
from filters.archive.database.shift import LONGEST, Shift, shifts
from filters.archive.minutes.escape import escape, unescape, unsigned
from filters.archive.minutes.values import HOUR, Statistic

_REST = 900.0  #: seconds after which the last hour of a period contains all values in time (see compaction)
_SILENT = 3  #: periods without a value after which a series is over
_TOGETHER = 500  #: entities per query
_METRICS = text("SELECT schema, place, resource_set, set_name, name FROM metrics")
_ENTITIES = (
    "SELECT e.entity, e.host, e.kind, e.stable, e.name, h.name FROM entities e"
    " JOIN hosts h ON h.cluster = e.cluster AND h.host = e.host"
    " WHERE e.cluster = {cluster} AND e.resource_set IN ({sets}) AND e.last_seen >= {since}"
)


class Key(NamedTuple):
    """Key of a series, stable across restarts: ``stable`` as in ``acquisition.wire.table.Entity``; SET.METRIC."""

    host: int
    kind: str
    stable: str
    metric: str

    @property
    def name(self) -> str:
        """Name for reports: a hash, since others choose the text of its parts."""
        return f"{PREFIX}{self.host:016x}:{identity('series', *map(escape, self[1:])):016x}"


class History(NamedTuple):
    """Means of periods, the oldest first, and the time of the first sample of each, in whole hours since 1970."""

    host: str
    entity: str
    change: float  #: minimum change, from the configuration
    values: tuple[float, ...]
    times: tuple[float, ...]


class Judged(NamedTuple):
    """All examined series, and those that have got worse, with the details of their events."""

    at: float
    series: frozenset[str]
    worse: Mapping[str, tuple[int, Regression, Mapping[str, float | int | str]]]  #: name -> host


class _Who(NamedTuple):
    host: int
    kind: str
    stable: str
    name: str
    host_name: str


class _Series(NamedTuple):
    """Hours being collected into a ``History``: per period the first hour, and sum and count of valid samples."""

    who: _Who
    change: float
    periods: dict[int, tuple[int, float, float]]

    def add(self, period: int, hour: int, mean: float, valid: float) -> None:
        first, total, count = self.periods.get(period, (hour, 0.0, 0.0))
        self.periods[period] = min(first, hour), total + mean * valid, count + valid

    def history(self) -> History:
        parts = [part for _, part in sorted(self.periods.items())]
        values = tuple(total / count for _, total, count in parts)
        times = tuple(float(first) for first, _, _ in parts)
        return History(self.who.host_name, self.who.name, self.change, values, times)


# ---------------------------------------------------------------- from the database


def read(connection: Connection, cluster: int, settings: Settings, now: float) -> dict[Key, History]:
    """Series to compare, of whole periods; ``cluster`` is signed."""
    period = settings.period_seconds
    end = (now - _REST) // period * period
    since = int(end - LONGEST * period)
    columns, sets = _columns(connection, settings)
    if not sets:
        return {}
    question = _ENTITIES.format(cluster=cluster, sets=", ".join(map(str, sets)), since=since)
    rows = [(row[0], _Who(unsigned(row[1]), *map(unescape, row[2:]))) for row in connection.execute(text(question))]
    chosen = {entity: who for entity, who in rows if _is_chosen(who, settings)}
    found: dict[Key, _Series] = {}
    for entity, schema, hour, figures in _hours(connection, cluster, chosen, sets, since):
        for place, metric, change in columns.get(schema, ()) if since <= hour < end else ():
            if (valid := float(figures[Statistic.VALID, place])) > 0:
                who = chosen[entity]
                key = Key(who.host, who.kind, who.stable, metric)
                one = found.setdefault(key, _Series(who, change, {}))
                one.add(int(hour // period), hour, float(figures[Statistic.MEAN, place]), valid)
    newest = end // period - _SILENT
    return {key: one.history() for key, one in found.items() if max(one.periods) >= newest}


def next_judgement(settings: Settings, now: float) -> float:
    """End of the current period."""
    period = settings.period_seconds
    return ((now - _REST) // period + 1) * period + _REST


def _columns(connection: Connection, settings: Settings) -> tuple[dict[int, list[tuple[int, str, float]]], set[int]]:
    """By schema, the columns to compare, with SET.METRIC and minimum change; and the sets."""
    columns: dict[int, list[tuple[int, str, float]]] = defaultdict(list)
    sets = set()
    for schema, place, resource_set, set_name, name in connection.execute(_METRICS):
        metric = f"{unescape(set_name)}.{unescape(name)}"
        change = next((part for pattern, part in settings.metrics.items() if fnmatchcase(metric, pattern)), None)
        if change is not None:
            columns[schema].append((place, metric, change))
            sets.add(resource_set)
    return columns, sets


def _is_chosen(who: _Who, settings: Settings) -> bool:
    return any(fnmatchcase(who.host_name, one) for one in settings.hosts) and any(
        fnmatchcase(who.name, one) for one in settings.entities
    )


def _hours(
    connection: Connection, cluster: int, entities: Collection[int], sets: Iterable[int], since: int
) -> Iterator[tuple[int, int, int, np.ndarray[tuple[int, int], np.dtype[np.float32]]]]:
    """Entity (signed), schema, hour, and statistics x metrics of that hour, in either stage."""
    of_sets = f"resource_set IN ({', '.join(map(str, sets))})"
    listed = sorted(entities)
    for first in range(0, len(listed), _TOGETHER):
        some = ", ".join(map(str, listed[first : first + _TOGETHER]))
        statement = f"SELECT * FROM rollups_1h WHERE cluster = {cluster} AND entity IN ({some}) AND began >= {since}"
        for row in writing.returned(connection, "rollups_1h", statement):
            figures, began = compaction.figures_of(row), row[2]
            for slot in np.flatnonzero((figures[Statistic.VALID] > 0).any(0)).tolist():
                yield row[1], row[6], began + slot * HOUR, figures[:, :, slot]
    statement = f"SELECT * FROM hours WHERE cluster = {cluster} AND minute >= {since} AND {of_sets}"
    for one in map(records.minute_of, writing.returned(connection, "hours", statement)):
        for place, entity in enumerate(one.ids.view(np.int64).tolist()):
            if entity in entities:
                yield entity, one.series.schema, one.minute, one.values[:, place]


# ---------------------------------------------------------------- pure


def judge(histories: Mapping[Key, History], period: float, now: float) -> Judged:
    """Series that have got worse. Series of equal length and minimum change are processed together."""
    alike: dict[tuple[int, float], list[Key]] = defaultdict(list)
    for key, history in histories.items():
        alike[min(len(history.values), LONGEST), history.change].append(key)
    worse = {}
    for (length, change), found in alike.items():
        rows = np.array([histories[key].values[-length:] for key in found])
        for key, shift in zip(found, shifts(rows, change), strict=True):
            if shift is not None:
                worse[key.name] = key.host, *_told(key, histories[key], shift, period, now)
    return Judged(now, frozenset(key.name for key in histories), worse)


def _told(
    key: Key, history: History, shift: Shift, period: float, now: float
) -> tuple[Regression, Mapping[str, float | int | str]]:
    since = history.times[-shift.runs]
    short = Regression(now, period, history.host, history.entity, key.metric, since, shift.change, shift.chance)
    details = {
        "entity": printable(history.entity), "kind": printable(key.kind), "stable": printable(key.stable),
        "metric": printable(key.metric), "since": since, "change": shift.change, "confidence": 1.0 - shift.chance,
        **shift._asdict(),
    }  # fmt: skip
    return short, details


# ---------------------------------------------------------------- to the shards


def tell(cluster: Cluster, tags: Sequence[str], judged: Judged, now: float) -> None:
    """Report new regressions, ended ones, and that the others persist. Raises ShardError."""
    commands: list[Command] = []
    for tag, told in happenings.read_told(cluster, tags).items():
        known = {name: state for name, state in told.items() if name.startswith(PREFIX)}
        number = tags.index(tag)
        found = {name: one for name, one in judged.worse.items() if keys.partition_of(one[0], len(tags)) == number}
        commands += happenings.commands(tag, list(_news(known, found, judged.series, now)))
    for reply in cluster.gather(commands):
        raise_for(reply)


def _news(
    known: Mapping[str, str],
    found: Mapping[str, tuple[int, Regression, Mapping[str, float | int | str]]],
    series: frozenset[str],
    now: float,
) -> Iterator[Happening]:
    for name, (number, one, details) in found.items():
        state = regressions.encode(one)
        if name in known:
            yield Happening(name, state, Turn.CHANGE, now)
        else:
            yield Happening(name, state, Turn.BEGIN, now, "regression", f"{number:016x}", details)
    for name in known.keys() - found.keys():
        before = regressions.decode(known[name])
        if name in series or before is None or not regressions.is_fresh(before, now):
            fields = ("entity", "metric", "since")
            over = {} if before is None else {field: getattr(before, field) for field in fields}
            host = name.removeprefix(PREFIX).partition(":")[0]
            yield Happening(name, "", Turn.END, now, "regression_over", host, over)
