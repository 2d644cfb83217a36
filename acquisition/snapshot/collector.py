"""Collection of garbage in programs that wait for their readings."""

from __future__ import annotations

import gc

_MANY = 50_000  #: containers that are new since the last collection: those of 500 hosts of a hot list are a quarter
_OLDER = 20, 20  #: collections of one generation until the next older one is visited as well


def collect_rarely() -> None:
    """For a program that waits for its readings, once it has read for the first time.

    What was imported and read so far is never visited again, and what is young only where that has become much: the
    objects of one reading are gone, or replaced, before. Until then a cycle of the program's own stays.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MANY, *_OLDER)
