"""Table frames: the names behind the numbers of a resource set.

A table is sent in the stream, numbered like every frame, at the start of an epoch,
whenever entities come, and again after any doubt. Its payload is UTF-8 JSON.
A table with ``complete`` replaces all entities known so far; one without adds to them.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.model.metric import INFINITY, Metric


class Entity(NamedTuple):
    """One row of a resource set. ``id`` is acquisition.model.identity.entity_id of the next three."""

    id: int
    kind: str  #: host, process, vm
    stable: str  #: what survives a restart or a migration: host name, pid on a host, VM uuid
    epoch: str  #: what does not
    name: str  #: for people: host name, command, guest name
    labels: dict[str, str] = {}  # noqa: RUF012 - never mutated; a NamedTuple has no factories


class Table(NamedTuple):
    """``interval`` in seconds; ``source`` is what the samples are read from."""

    host: str
    resource_set: str
    interval: float
    source: str
    complete: bool
    metrics: tuple[Metric, ...]
    entities: tuple[Entity, ...]


def encode(table: Table) -> bytes:
    """The JSON payload of a table."""
    document = {
        "host": table.host,
        "resource_set": table.resource_set,
        "interval": table.interval,
        "source": table.source,
        "complete": table.complete,
        "metrics": [[m.name, m.unit, m.kind, _finite(m.low), _finite(m.high), m.help] for m in table.metrics],
        "entities": [[f"{e.id:016x}", e.kind, e.stable, e.epoch, e.name, e.labels] for e in table.entities],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode(payload: bytes) -> Table:
    """The table in a payload. Raises FrameError("payload") when it is none."""
    try:
        document: dict[str, Any] = json.loads(payload)
        return Table(
            str(document["host"]),
            str(document["resource_set"]),
            float(document["interval"]),
            str(document["source"]),
            bool(document["complete"]),
            tuple(
                Metric(
                    str(name),
                    str(unit),
                    str(kind),
                    -INFINITY if low is None else float(low),
                    INFINITY if high is None else float(high),
                    str(text),
                )
                for name, unit, kind, low, high, text in document["metrics"]
            ),
            tuple(
                Entity(int(key, 16), str(kind), str(stable), str(epoch), str(name), dict(labels))
                for key, kind, stable, epoch, name, labels in document["entities"]
            ),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FrameError("payload", f"no table: {error}") from error


def merge(old: Table | None, new: Table) -> Table:
    """What is known after ``new``: its entities alone when complete, else added to the old ones."""
    if old is None or new.complete:
        return new
    known = {entity.id: entity for entity in old.entities}
    known.update((entity.id, entity) for entity in new.entities)
    return new._replace(entities=tuple(known.values()))


def _finite(value: float) -> float | None:
    return value if abs(value) != INFINITY else None
