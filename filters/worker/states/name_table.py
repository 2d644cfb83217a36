"""Name table of a resource set in a worker: bytes to rewrite, and members.

A decoded table of a hundred entities is about 70 KB of small objects, which Python's garbage
collector would visit repeatedly; at ten thousand hosts they take most of a worker's memory.
The bytes and one array of ids take a tenth of it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from acquisition.model.metric import INFINITY, Metric, schema_hash
from acquisition.wire import table

_IDS = re.compile("(?:[0-9a-f]{16} )*")
_Columns = tuple[tuple[str, str, str, float | None, float | None, str], ...]


class Payload(msgspec.Struct, forbid_unknown_fields=True):
    """A table as encoded by ``acquisition.wire.table``."""

    host: str
    resource_set: str
    interval: float
    source: str
    complete: bool
    metrics: _Columns
    entities: list[tuple[str, str, str, str, str, dict[str, str]]]


decode = msgspec.json.Decoder(Payload).decode


class NameTable(NamedTuple):
    """``payload``: JSON of a whole table; ``host``: its host name; ``ids`` uint64 (n,) sorted; ``metrics``: names
    in column order; ``schema``: hash of the columns."""

    payload: bytes
    host: str
    ids: npt.NDArray[np.uint64]
    metrics: tuple[str, ...]
    schema: int

    def covers(self, ids: npt.NDArray[np.uint64]) -> bool:
        """Whether all of ``ids`` have names."""
        if not self.ids.size:
            return not ids.size
        at = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        return bool((self.ids[at] == ids).all())


def learn(old: NameTable | None, payload: bytes) -> NameTable:
    """Names after a table frame: a complete one replaces the known names, any other adds to them.

    Raises FrameError if ``payload`` is not a table; the names are then unchanged.
    """
    found = _learn_quickly(payload)
    if found is not None:
        return found
    new = table.decode(payload)
    if not new.complete and old is not None:
        new = table.merge(table.decode(old.payload), new)
        payload = table.encode(new)
    ids = np.array([entity.id for entity in new.entities], np.uint64)
    ids.sort()
    return NameTable(payload, new.host, ids, tuple(metric.name for metric in new.metrics), schema_hash(new.metrics))


def _learn_quickly(payload: bytes) -> NameTable | None:
    """Names of a complete table, without an object for each unused text; None if it is not plainly
    one: ``acquisition.wire.table`` reports its errors."""
    try:
        found = decode(payload)
    except (msgspec.MsgspecError, ValueError):
        return None
    keys = "".join([f"{entity[0]} " for entity in found.entities])
    if not found.complete or not 0.0 < found.interval < INFINITY or _IDS.fullmatch(keys) is None:
        return None
    ids = np.frombuffer(bytes.fromhex(keys), ">u8").astype(np.uint64)
    ids.sort()
    return NameTable(payload, found.host, ids, *_columns(found.metrics))


@lru_cache(1024)  # shared by hosts of one kind
def _columns(metrics: _Columns) -> tuple[tuple[str, ...], int]:
    """Names of columns, and the hash of all."""
    rows = tuple(Metric(name, unit, kind, -INFINITY, INFINITY, text) for name, unit, kind, _, _, text in metrics)
    return tuple(row.name for row in rows), schema_hash(rows)
