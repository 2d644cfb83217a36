"""First report of each VM by each host, by the filter's clock (pure).

Which of two hosts had a VM first decides between them (``acquisition.snapshot.vms.placement``), so neither of them
may say so itself. The filter writes it as a label into the table that it keeps for readers: there it outlives the
filter.
"""

from __future__ import annotations

import msgspec
import numpy as np

from acquisition.wire import table
from acquisition.wire.table import FIRST_SEEN, VM
from filters.worker.states.name_table import Payload, decode


def stamped(payload: bytes, before: bytes, rows: bytes | None, now: float) -> bytes:
    """The table ``payload`` with the label ``first_seen`` of its VMs: that of the table ``before`` where the VM is
    among the newest ``rows`` (uint64 as bytes; None: unknown), else ``now``, seconds since 1970.

    Raises FrameError when ``payload`` is no table.
    """
    if b'"vm"' not in payload and b"\\" not in payload:  # JSON may write a letter as an escape
        return payload
    new, there = _plain(payload), frozenset(np.frombuffer(rows or b"", "<u8").tolist())
    known = {
        stable: labels.get(FIRST_SEEN)
        for key, kind, stable, _, _, labels in (_plain(before).entities if before else ())
        if kind == VM and (rows is None or int(key, 16) in there)
    }
    for _, kind, stable, _, _, labels in new.entities:
        if kind == VM:
            labels[FIRST_SEEN] = known.get(stable) or f"{now:.3f}"
    return msgspec.json.encode(new)


def _plain(payload: bytes) -> Payload:
    """The values of a table, however it is written. Raises FrameError when it is none."""
    try:
        return decode(payload)
    except (msgspec.MsgspecError, ValueError):
        return decode(table.encode(table.decode(payload)))
