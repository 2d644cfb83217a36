"""Are the names of vanished VMs gone? A table may be as old as the newest change that brought a row."""

from __future__ import annotations

from collections.abc import Sequence

from acquisition.link.cluster import Cluster
from acquisition.snapshot.block import Block
from acquisition.wire import keys, table
from acquisition.wire.layout import Layout

#: Rows that may have left since the newest table: the emulated changes are replace, leave, join, in turn.
_LEFT_SINCE = 1


def forgotten_names(cluster: Cluster, layout: Layout, blocks: Sequence[Block]) -> int:
    """Entities that are still named although their host's newest record does not have them."""
    stale = 0
    for block in blocks:
        if not block.has_values:
            continue
        key = keys.names(layout.tag_of(block.host_id), block.host_id, block.set_id)
        data = cluster.call(key, "GET", key)
        known = {entity.id for entity in table.decode(data).entities} if data is not None else set()
        stale += max(0, len(known - set(block.ids.tolist())) - _LEFT_SINCE)
    return stale
