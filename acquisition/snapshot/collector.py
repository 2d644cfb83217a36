"""Garbage collection in programs that wait for their readings."""

from __future__ import annotations

import gc

_MANY = 50_000  #: new containers since the last collection: those of 500 hosts of a hot list are a quarter
_OLDER = 20, 20  #: collections of one generation per collection of the next older one


def collect_rarely() -> None:
    """For a program that waits for its readings, after its first reading.

    Objects imported or read so far are never visited again, and young ones only when there are many: the
    objects of one reading are gone, or replaced, before. Until then cycles of the program's own remain.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MANY, *_OLDER)
