"""The JSON document of ``shardpulse top --json``. Keys are stable: new ones may come, none changes its meaning.

::

    now        seconds since 1970 by the reader's clock
    rows       in the order of --sort: kind (hosts, entities, metrics), name, label, id (of what is no metric),
               unit, mean, deviation, trend, last, extra (of further kernels, by name), validity, memory,
               memory_unit, invalid, missing, age_seconds, tick, interval, state, reason. The figures are of CPU
               use (of a host its cpu_busy_ratio), or of the metric. null: there is no value
    hidden     rows that --top or --filter left out
    shards     as acquisition.status.shards.ShardHealth
    errors     what could not be read or seen
    blind      why no host at all can be seen
"""

from __future__ import annotations

from typing import Any

from acquisition.model import codes
from acquisition.snapshot.states import STATES
from filters.text.quantities import digits
from filters.top.contents import Observation
from filters.top.listing import METRICS, Listing
from filters.top.order import Rows


def document(observation: Observation, listing: Listing, rows: Rows) -> dict[str, Any]:
    """The document, ready for JSON."""
    return {
        "now": round(observation.snapshot.now, 6),
        "rows": [_row(listing, at) for at in rows.tolist()],
        "hidden": listing.rows - len(rows),
        "shards": [shard._asdict() for shard in observation.shards],
        "errors": list(observation.snapshot.errors),
        "blind": observation.snapshot.blind,
    }


def _row(listing: Listing, at: int) -> dict[str, Any]:
    figures = {name: digits(getattr(listing, name)[at]) for name in ("mean", "deviation", "trend", "last", "memory")}
    extra = {plane.figure: digits(column[at]) for plane, column in listing.extra.items()}
    return {
        "kind": listing.kind,
        "name": listing.names[at],
        "label": listing.labels[at],
        "id": None if listing.kind == METRICS else f"{int(listing.ids[at]):016x}",
        "unit": listing.units[at],
        **figures,
        "extra": extra,
        "memory_unit": listing.memory_unit,
        "validity": codes.name_of(int(listing.codes[at])),
        "invalid": int(listing.invalid[at]),
        "missing": int(listing.missing[at]),
        "age_seconds": digits(listing.age[at]),
        "tick": int(listing.tick[at]),
        "interval": float(listing.interval[at]),
        "state": STATES[listing.state[at]],
        "reason": listing.reasons[at],
    }
