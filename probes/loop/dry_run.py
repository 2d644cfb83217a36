"""Dry run of the probe: readings as JSON Lines on stdout, without shards.

One object per reading: ``time, tick, resource_set, entities [{name, kind, stable, labels, metrics
{name: value}, invalid {name: {value, code}}}]``; a missing value is null, an
infinite one is the string ``Infinity`` or ``-Infinity``, as in a replay.
"""

from __future__ import annotations

import json
import sys
from array import array
from math import isfinite, isnan
from typing import TextIO

from acquisition.model.codes import name_of
from acquisition.model.metric import Metric, resource_set_id
from acquisition.wire.frame import Samples
from acquisition.wire.table import Entity, Table


class DryRun:
    """An outlet that prints."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._entities: dict[int, Entity] = {}
        self._metrics: dict[int, tuple[str, tuple[Metric, ...]]] = {}

    def offer(self, samples: Samples) -> int:
        """Print a reading; see ``Writer.offer``."""
        name, columns = self._metrics[samples.resource_set]
        metrics, codes = samples.metrics, samples.codes
        rows = []
        figures = array("f", samples.values)
        for number, identity in enumerate(array("Q", samples.ids)):
            entity = self._entities[identity]
            part = slice(number * metrics, (number + 1) * metrics)
            rows.append(
                {"name": entity.name, "kind": entity.kind, "stable": entity.stable, "labels": entity.labels}
                | row(columns, list(figures[part]), codes[part] or bytes(metrics))
            )
        document = {"time": samples.wall, "tick": samples.tick, "resource_set": name, "entities": rows}
        self._out.write(json.dumps(document, separators=(",", ":")) + "\n")
        self._out.flush()
        return samples.tick

    def offer_table(self, names: Table, tick: int, wall: float, monotonic: float) -> int:
        """Remember the names; see ``Writer.offer_table``."""
        del wall, monotonic
        self._metrics[resource_set_id(names.resource_set)] = names.resource_set, names.metrics
        self._entities.update((entity.id, entity) for entity in names.entities)
        return tick

    def wants_table(self, resource_set: int) -> bool:
        """Whether its names have not been seen yet."""
        return resource_set not in self._metrics

    def set_extra_status(self, values: dict[str, object]) -> None:
        """Ignored: there is no status record."""
        del values

    waits_for = (-1, 0, 0)  #: nothing

    def service(self, now: float) -> float:
        """Nothing to send."""
        del now
        return float("inf")


def row(columns: tuple[Metric, ...], values: list[float], codes: bytes) -> dict[str, object]:
    """``metrics`` and ``invalid`` of one entity."""
    metrics: dict[str, float] = {}
    invalid: dict[str, dict[str, object]] = {}
    for metric, value, code in zip(columns, values, codes, strict=True):
        if code:
            invalid[metric.name] = {"value": json_value(value), "code": name_of(code)}
        else:
            metrics[metric.name] = value
    return {"metrics": metrics, "invalid": invalid}


def json_value(value: float) -> float | str | None:
    """A raw value for JSON: null if there is none, a string for an infinite one."""
    if isnan(value):
        return None
    return value if isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
