"""What people should know of the pipeline: one finding for each thing."""

from __future__ import annotations

from typing import NamedTuple

UNBALANCED = "unbalanced"  #: counts that must agree do not
DOWN = "down"  #: a part does not answer, or is not there
STALE = "stale"  #: a part answers and is behind, or has not said anything for long
NOTE = "note"  #: worth knowing, nothing is wrong now


class Finding(NamedTuple):
    """One thing that people should know: UNBALANCED, DOWN, STALE or NOTE, about what, and what it is."""

    kind: str
    about: str
    text: str
