"""Sources of a picture's readings: decision inputs and recent values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from acquisition.model import codes
from acquisition.model.inputs import DecisionInputs
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.values.block import Block, finite
from acquisition.snapshot.values.inputs import DerivedReading, InputsTable
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.recent import RecentTable
from filters.decisions.overload_detection.rule import Rule
from filters.decisions.picture import Reading

Tables = Mapping[Owner, InputsTable]

_RATIO = "ratio"


class TickInputs:
    """Completes readings (filters.judging.observe.Inputs) from tables of the snapshot's own ticks."""

    def __init__(self, tables: Tables, recent: Mapping[Owner, RecentTable] | None = None) -> None:
        self._tables = tables
        self._recent = recent or {}

    def complete(self, block: Block, row: int, metric: str, reading: Reading | None) -> Reading | None:
        """The reading with its inputs; of a metric that the filter derives, the whole reading."""
        owner = (block.host_id, block.set_id)
        table = self._tables.get(owner)
        if table is None or row >= table.rows:
            return reading
        inputs = table.inputs(row, metric)
        if reading is None:
            derived = table.derived(row, metric)
            if derived is None:
                return None
            reading = _of_derived(metric, block, derived, inputs)
        else:
            reading = reading._replace(inputs=inputs)
        recent = self._recent.get(owner)
        if recent is None or reading.inputs is None:
            return reading
        # what the filter's windows know at this very tick: nothing newer, nothing of before a restart
        known = recent.valid_values(int(table.ids[row]), metric, table.head.first, table.head.step)
        return reading._replace(
            recent=tuple(known.raw), recent_means=tuple(known.smoothed), recent_steps=tuple(known.steps)
        )


def inputs_of(reader: SnapshotReader, snapshot: Snapshot, rule: Rule) -> TickInputs:
    """What a rule may ask of the hosts and VMs of a snapshot; recent values of hosts where it needs them. Raises
    ShardError when no shard answers at all."""
    known = reader.inputs(snapshot)
    return TickInputs(known, recent_of(reader, host_owners(snapshot, known), rule) if rule.history else {})


def recent_of(reader: SnapshotReader, owners: Sequence[Owner], rule: Rule) -> Mapping[Owner, RecentTable]:
    """The recent values of these hosts, if the rule cannot do without. Raises as ``inputs_of``."""
    return reader.recent(owners) if rule.history and owners else {}


def host_owners(snapshot: Snapshot, tables: Tables) -> list[Owner]:
    """The resource sets of hosts themselves, of which there are decision inputs."""
    owners = ((block.host_id, block.set_id) for block in snapshot.blocks if block.resource_set == HOST_SET)
    return [owner for owner in owners if owner in tables]


def _of_derived(metric: str, block: Block, derived: DerivedReading, inputs: DecisionInputs | None) -> Reading:
    deviation = None if derived.variance is None else math.sqrt(max(0.0, derived.variance))
    return Reading(
        metric, derived.mean, deviation, derived.trend, derived.last, codes.name_of(derived.code),
        finite(block.age_seconds), derived.stale_seconds, inputs, unit=_RATIO, interval=block.interval or 1.0,
    )  # fmt: skip
