"""Table frames: names for the numbers of a resource set.

A table is sent in the stream, numbered like every frame, at the start of an epoch,
whenever entities are added, and again after any doubt. Its payload is UTF-8 JSON.
A table with ``complete`` replaces all entities known so far; one without adds to them.

``decode`` refuses content that filters and readers cannot represent: numbers that are not finite, ids of other than 64
bits, text that is not UTF-8 (lone surrogates, which JSON can carry). So later stages need no checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.model.metric import INFINITY, Metric

_ID = re.compile("[0-9a-f]{16}")
#: Entities encoded at once: a thousand would take a megabyte for a moment, and permanently in a probe's memory.
_TOGETHER = 64
_COLUMNS = 4096  #: to cache: hosts of one kind have the same ones
_json = json.JSONEncoder(separators=(",", ":")).encode

VM = "vm"  #: kind of the entities that migrate
DAEMON = "daemon"  #: label of processes that run VMs, keep the logs or carry the samples: never moved
#: A label of VMs, from the filter: since when the host has reported it without interruption.
FIRST_SEEN = "first_seen"


class Entity(NamedTuple):
    """One row of a resource set. ``id`` is acquisition.model.identity.entity_id of the next three."""

    id: int
    kind: str  #: host, process, vm
    stable: str  #: part that survives a restart or a migration: host name, pid on a host, VM uuid
    epoch: str  #: part that does not
    name: str  #: for people: host name, command, guest name
    labels: dict[str, str] = {}  # noqa: RUF012 - never mutated; a NamedTuple has no factories


class Table(NamedTuple):
    """``interval`` in seconds; ``source`` is the source of the samples."""

    host: str
    resource_set: str
    interval: float
    source: str
    complete: bool
    metrics: tuple[Metric, ...]
    entities: tuple[Entity, ...]


def encode(table: Table) -> bytes:
    """JSON payload of a table."""
    rows = table.entities
    entities = ",".join([_rows(rows[first : first + _TOGETHER]) for first in range(0, len(rows), _TOGETHER)])
    document = {
        "host": table.host,
        "resource_set": table.resource_set,
        "interval": table.interval,
        "source": table.source,
        "complete": table.complete,
        "metrics": [[m.name, m.unit, m.kind, _finite(m.low), _finite(m.high), m.help] for m in table.metrics],
    }
    return f'{_json(document)[:-1]},"entities":[{entities}]}}'.encode()


def _rows(entities: tuple[Entity, ...]) -> str:
    return _json([(f"{e.id:016x}", e.kind, e.stable, e.epoch, e.name, e.labels) for e in entities])[1:-1]


def decode(payload: bytes, known: Mapping[int, Entity] | None = None) -> Table:
    """Table in a payload; entities equal to ``known`` ones, by their ids, are taken from there. Raises
    FrameError("payload") if it is invalid."""
    before = known or {}
    try:
        document, metrics = _parsed(payload)
        return Table(
            _text(document["host"]),
            _text(document["resource_set"]),
            _interval(document["interval"]),
            _text(document["source"]),
            bool(document["complete"]),
            metrics,
            tuple([_entity(before, *row) for row in document["entities"]]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise FrameError("payload", f"invalid table: {error!s:.200}") from error


def merge(old: Table | None, new: Table) -> Table:
    """Table after the arrival of ``new``: its entities alone if complete, else added to the old ones."""
    if old is None or new.complete:
        return new
    known = {entity.id: entity for entity in old.entities}
    known.update((entity.id, entity) for entity in new.entities)
    return new._replace(entities=tuple(known.values()))


def _parsed(payload: bytes) -> tuple[dict[str, Any], tuple[Metric, ...]]:
    """The document, and its columns, common to most hosts and most of its size: their text is parsed
    once if it certainly is the value of the outermost object's only "metrics"."""
    head, _, rest = payload.partition(b',"metrics":[')
    columns, between, entities = rest.partition(b'],"entities":[')
    if between and head.rfind(b"{") == 0 and b"[" not in head:
        document: dict[str, Any] = json.loads((head + b',"entities":[' + entities).decode())
        if "metrics" not in document:
            return document, _columns(columns)
    document = json.loads(payload)
    return document, tuple(_metric(*row) for row in document["metrics"])


@lru_cache(64)
def _columns(text: bytes) -> tuple[Metric, ...]:
    return tuple(_metric(*row) for row in json.loads(f"[{text.decode()}]"))


@lru_cache(_COLUMNS, typed=True)
def _metric(name: Any, unit: Any, kind: Any, low: Any, high: Any, text: Any) -> Metric:
    bounds = (-INFINITY if low is None else _number(low), INFINITY if high is None else _number(high))
    return Metric(_text(name), _text(unit), _text(kind), *bounds, _text(text))


def _entity(
    known: Mapping[int, Entity], key: str, kind: Any, stable: Any, epoch: Any, name: Any, labels: dict[str, Any]
) -> Entity:
    if _ID.fullmatch(key) is None:
        raise ValueError(f"{key!r:.40} is not a 64-bit id")
    found = known.get(int(key, 16))
    if found is not None and found[1:] == (kind, stable, epoch, name, labels):
        return found
    named = {_text(label): _text(value) for label, value in labels.items()}
    return Entity(int(key, 16), _text(kind), _text(stable), _text(epoch), _text(name), named)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r:.40} is not text")
    if not value.isascii():
        value.encode()
    return value


def _number(value: Any) -> float:
    number = float(value) if type(value) in (int, float) else INFINITY
    if not -INFINITY < number < INFINITY:
        raise ValueError(f"{value!r:.40} is not a finite number")
    return number


def _interval(value: Any) -> float:
    seconds = _number(value)
    if seconds <= 0:
        raise ValueError(f"invalid interval of {seconds} s")
    return seconds


def _finite(value: float) -> float | None:
    return value if abs(value) != INFINITY else None
