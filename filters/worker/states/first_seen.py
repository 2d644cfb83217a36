"""First report of each VM by each host, by the filter's clock (pure).

The earlier of two hosts with a VM decides between them (``acquisition.snapshot.vms.placement``), so neither of them
may report it itself. The filter writes it as a label into the table stored for readers, where it survives the
filter.
"""

from __future__ import annotations

import msgspec
import numpy as np

from acquisition.wire import table
from acquisition.wire.table import FIRST_SEEN, VM
from filters.worker.states.name_table import Payload, decode


def stamped(payload: bytes, before: bytes, rows: bytes | None, now: float) -> bytes:
    """The table ``payload`` with the label ``first_seen`` of its VMs: from the table ``before`` if the VM is
    among the newest ``rows`` (uint64 as bytes; None: unknown), else ``now``, seconds since 1970.

    Raises FrameError if ``payload`` is not a table.
    """
    if b'"vm"' not in payload and b"\\" not in payload:  # JSON may escape any letter
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
    """Decoded values of a table in any notation. Raises FrameError if it is not a table."""
    try:
        return decode(payload)
    except (msgspec.MsgspecError, ValueError):
        return decode(table.encode(table.decode(payload)))
