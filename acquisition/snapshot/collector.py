"""The cyclic garbage collector waits while a reading is put together.

A reading makes tens of thousands of objects of which none is in a cycle; each time that some hundreds more have been
made the collector would visit all that is young, and now and then everything that the program holds.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 50_000  #: containers that are new since the last collection: those of 500 hosts of a hot list are a quarter
_OLDER = 20, 20  #: collections of one generation until the next older one is visited as well


@contextmanager
def paused() -> Iterator[None]:
    """No collection until the end of the block, if collections are on at all. Other threads may be in such a block as
    well: a caller that found them on turns them on again."""
    was_on = gc.isenabled()
    if was_on:  # who finds them off must not turn them off: another thread may just have turned them on again
        gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def collect_rarely() -> None:
    """For a program that waits for its readings, once it has read for the first time.

    What was imported and read so far is never visited again, and what is young only where that has become much: the
    objects of one reading are gone, or replaced, before. Until then a cycle of the program's own stays.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MANY, *_OLDER)
