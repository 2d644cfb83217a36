"""What a source in a child process says to the probe: one line of JSON per tick.

A line is ``{"wall", "monotonic", "dt", "cores", "memory_bytes", "values", "codes"}``, with ``entities`` (rows of
``acquisition.wire.table.Entity``) whenever they have changed, or ``{"problem": TEXT}`` for a tick without a
reading. ``values`` are float64 and ``codes`` bytes, both in base64: JSON's own numbers take nine times as long.
"""

from __future__ import annotations

import json
from array import array
from binascii import a2b_base64, b2a_base64
from typing import Any

from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.reading import Reading

_BYTES = 8  #: of a value


def encode(reading: Reading, with_entities: bool) -> bytes:
    """The line of a reading."""
    document: dict[str, Any] = {
        "wall": reading.wall,
        "monotonic": reading.monotonic,
        "dt": reading.dt,
        "cores": reading.cores,
        "memory_bytes": reading.memory_bytes,
        "values": b2a_base64(array("d", reading.values).tobytes(), newline=False).decode(),
        "codes": b2a_base64(reading.codes, newline=False).decode(),
    }
    if with_entities:
        document["entities"] = reading.entities
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def encode_problem(problem: str) -> bytes:
    """The line of a tick without a reading."""
    return json.dumps({"problem": problem}).encode() + b"\n"


def decode(line: bytes, resource_set: ResourceSet, entities: list[Entity]) -> Reading | str:
    """The reading in a line, or the problem that it tells; ``entities`` are those of the line before. Raises
    ValueError for a line that no child of this version writes."""
    try:
        document = json.loads(line)
        if "problem" in document:
            return str(document["problem"])
        if "entities" in document:
            entities = [_entity(*row) for row in document["entities"]]
        values = array("d", a2b_base64(document["values"]))
        codes = bytearray(a2b_base64(document["codes"]))
        if not len(values) == len(codes) == len(entities) * len(resource_set.metrics):
            raise ValueError(f"{len(values)} values of {len(entities)} entities")
        wall, monotonic, dt = (float(document[name]) for name in ("wall", "monotonic", "dt"))
        cores, memory_bytes = int(document["cores"]), float(document["memory_bytes"])
    except (TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"no reading: {error!r}") from error
    return Reading(resource_set, entities, values.tolist(), codes, wall, monotonic, dt, cores, memory_bytes)


def _entity(number: int, kind: str, stable: str, epoch: str, name: str, labels: dict[str, str]) -> Entity:
    if not 0 <= number < 1 << (8 * _BYTES):
        raise ValueError(f"{number} is no entity id")
    return Entity(number, str(kind), str(stable), str(epoch), str(name), {str(k): str(v) for k, v in labels.items()})
