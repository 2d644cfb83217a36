"""Since when each host has reported each of its VMs, by the filter's clock (pure).

Which of two hosts had a VM first decides between them (``acquisition.snapshot.placement``), so neither of them may say
so itself. The filter writes it as a label into the table that it keeps for readers: there it outlives the filter.
"""

from __future__ import annotations

import numpy as np

from acquisition.wire import table
from acquisition.wire.table import FIRST_SEEN, VM


def stamped(payload: bytes, before: bytes, rows: bytes | None, now: float) -> bytes:
    """The table ``payload`` with the label ``first_seen`` of its VMs: that of the table ``before`` where the VM is
    among the newest ``rows`` (uint64 as bytes; None: unknown), else ``now``, seconds since 1970.

    Raises FrameError when ``payload`` is no table.
    """
    if b'"vm"' not in payload and b"\\" not in payload:  # JSON may write a letter as an escape
        return payload
    new, there = table.decode(payload), frozenset(np.frombuffer(rows or b"", "<u8").tolist())
    known = {
        entity.stable: entity.labels.get(FIRST_SEEN, "")
        for entity in (table.decode(before).entities if before else ())
        if entity.kind == VM and (rows is None or entity.id in there)
    }
    entities = tuple(
        entity._replace(labels={**entity.labels, FIRST_SEEN: known.get(entity.stable) or f"{now:.3f}"})
        if entity.kind == VM
        else entity
        for entity in new.entities
    )
    return table.encode(new._replace(entities=entities))
