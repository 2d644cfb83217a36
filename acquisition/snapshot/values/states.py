"""States of a resource set in a reading: current, or the reason it is not."""

from __future__ import annotations

#: The requested tick is present.
CURRENT = "current"
#: It is not: the host is slow, or its data cannot be used. ``reason`` of the block is the cause.
LATE = "late"
#: The condition of the host cannot be known: the pipeline does not show it, or its probe was stopped in order.
#: ``cause`` is the reason.
UNKNOWN = "unknown"
#: Nothing has arrived from the whole host for longer than ``down_after``, and the pipeline would have shown it.
DOWN = "down"

STATES = (CURRENT, LATE, UNKNOWN, DOWN)  #: the index of a state is its number in arrays, the worst last

SHARD = "shard"
UNHELD = "unheld"
FULL = "full"
UNCOMMITTED = "uncommitted"
SILENCE = "silence"
GOODBYE = "goodbye"
REFUSED = "refused"
SILENT = "silent"

#: Cause of a host being unknown or down -> its meaning, in the order of the checks.
CAUSES = {
    SHARD: "its shard does not answer, or has lost its data",
    UNHELD: "no filter worker holds its partition",
    FULL: "its shard is out of memory and refuses writes",
    UNCOMMITTED: "the filter has not committed the frames in its partition",
    GOODBYE: "its probe was stopped",
    REFUSED: "the filter refuses its frames: signature",
    SILENCE: "its probe and those of its neighbours are silent",
    SILENT: "its probe is silent, those of its neighbours are not",
}
#: Causes by which the pipeline hides data of hosts; and all for which the state of a running host is unknown.
HIDING = frozenset((SHARD, UNHELD, FULL, UNCOMMITTED))
BLIND = HIDING | {SILENCE}

#: Seconds for which a second host that reports a VM prevents its move (acquisition.snapshot.vms.placement).
CLAIM_SECONDS = 60.0
