"""What a reading says of a resource set of a host: is the tick here that was asked for, and if not, why not?"""

from __future__ import annotations

#: The tick that the reading asks for is here.
CURRENT = "current"
#: It is not: the host is slow, or what it sent cannot be used. ``reason`` of the block says which.
LATE = "late"
#: Nobody can say how the host is: the pipeline does not show it, or its probe has been stopped in order. ``cause`` says
#: which.
UNKNOWN = "unknown"
#: Nothing has come from the whole host for longer than ``down_after``, and the pipeline would have shown it.
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

#: Why a host is unknown or down -> what that means, in the order in which they are looked for.
CAUSES = {
    SHARD: "its shard does not answer this reader, or has lost it",
    UNHELD: "no filter worker holds its partition",
    FULL: "its shard is full, and refuses what probes send and filters write",
    UNCOMMITTED: "the filter has not committed what lies in its partition",
    GOODBYE: "its probe was stopped in order",
    REFUSED: "the filter refuses what its probe sends: signature",
    SILENCE: "neither its probe nor those of its neighbours are heard",
    SILENT: "its probe is silent while those of its neighbours are heard",
}
#: Causes by which the pipeline hides what hosts send; and all for which the state of a running host is unknown.
HIDING = frozenset((SHARD, UNHELD, FULL, UNCOMMITTED))
BLIND = HIDING | {SILENCE}

#: Seconds for which a second host that reports a VM keeps it from being moved (acquisition.snapshot.vms.placement).
CLAIM_SECONDS = 60.0
