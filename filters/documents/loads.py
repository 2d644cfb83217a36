"""The load of all hosts at once: three moving averages each, without the readings that rules take apart.

A heat map asks for ten thousand hosts at every tick, so only means are looked at: the filter's own derived figures
where it has them, else the formulas of ``filters.decisions.ratios`` over the means of the host's row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from acquisition.model import ticks
from acquisition.model.metric import HOST_SET
from acquisition.snapshot.block import Block
from acquisition.snapshot.inputs import InputsTable
from acquisition.snapshot.owner import Owner
from acquisition.snapshot.rows import finite
from acquisition.snapshot.states import CURRENT
from acquisition.wire.planes import MEAN
from filters.decisions import ratios
from filters.decisions.picture import CPU, MEMORY, NETWORK, VALID, Reading

#: Ratio of the capacity of a host by metric (CPU, MEMORY, NETWORK); one that is not known is not there.
Load = Mapping[str, float]


def loads(blocks: Iterable[Block], tables: Mapping[Owner, InputsTable]) -> dict[str, Load]:
    """Load by host id in 16 hex digits, of the hosts that are current: the others are not idle, but unknown."""
    return {
        f"{block.host_id:016x}": _load(block, tables.get((block.host_id, block.set_id)))
        for block in blocks
        if block.resource_set == HOST_SET and block.state == CURRENT and block.raw_ids
    }


def _load(block: Block, table: InputsTable | None) -> Load:
    found, means = {}, None
    for metric in (CPU, MEMORY, NETWORK):
        derived = table.derived(0, metric) if table is not None and table.rows else None
        if derived is not None:
            old = derived.stale_seconds is None or derived.stale_seconds > ticks.stale_after(block.interval)
            mean = None if old else derived.mean
        else:
            means = _means(block) if means is None else means
            reading = means.get(metric) or ratios.HOST[metric](means)
            mean = None if reading is None else reading.mean
        if mean is not None:
            found[metric] = mean
    return found


def _means(block: Block) -> dict[str, Reading]:
    row = block.shown(MEAN)[0].tolist()
    return {
        metric.name: Reading(metric.name, finite(mean), validity=VALID)
        for metric, mean in zip(block.metrics, row, strict=True)
    }
