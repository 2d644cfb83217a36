"""What a reading says of a resource set of a host: is the tick here that was asked for?"""

from __future__ import annotations

#: The tick that the reading asks for is here.
CURRENT = "current"
#: It is not: the host is slow, or what it sent cannot be used. ``reason`` of the block says which.
LATE = "late"
#: Nothing has come from the whole host for longer than ``down_after``.
DOWN = "down"

STATES = (CURRENT, LATE, DOWN)  #: the index of a state is its number in arrays
