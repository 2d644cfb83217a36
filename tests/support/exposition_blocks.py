"""Exposition blocks made in memory, without shards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.names import Names
from acquisition.snapshot.values.states import CURRENT
from acquisition.wire.position import Position
from acquisition.wire.records import smoothed
from acquisition.wire.table import Entity, Table
from tests.support import scene

NOW = 1_800_000_000.0


def host_entity(host: str, labels: dict[str, str] | None = None) -> Entity:
    return Entity(entity_id("host", host, "boot"), "host", host, "boot", host, labels or {})


def process(host: str, pid: int, name: str, labels: dict[str, str] | None = None) -> Entity:
    stable = f"{host}:{pid}"
    return Entity(entity_id("process", stable, "1"), "process", stable, "1", name, labels or {})


def block(
    host: str,
    resource_set: str,
    entities: Sequence[Entity],
    metrics: tuple[Metric, ...] = scene.METRICS,
    mean: np.ndarray | None = None,
    exceptions: scene.Exceptions = (),
    age: float = 0.7,
    named: bool = True,
) -> Block:
    """A current block; mean = 10 row + column, last = mean + 1, deviation 2, trend 0.5 as ``scene.record``."""
    number, set_number = host_id(host), resource_set_id(resource_set)
    tick = int(NOW - age)
    shape = (len(entities), len(metrics))
    values = np.arange(shape[0])[:, None] * 10.0 + np.arange(shape[1]) if mean is None else mean
    data = scene.record(
        number, set_number, [row.id for row in entities], values, tick, schema=schema_hash(metrics),
        exceptions=exceptions, wall=NOW - age, filtered=NOW - age + 0.01,
    )  # fmt: skip
    made = Block(number, set_number, Position(5, 9, tick, NOW - age, 1.0, applied=900, invalid=3))
    made.take(smoothed.check(data), data)
    if named:
        table = Table(host, resource_set, 1.0, "procfs", True, metrics, tuple(entities))
        made.use_names(Names(table), resource_set)
    made.state, made.age_seconds = CURRENT, age
    return made


def snapshot(*blocks: Block, reading: str = "coherent", errors: Sequence[str] = ()) -> Snapshot:
    return Snapshot(reading, NOW, blocks, errors)
