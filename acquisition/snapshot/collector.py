"""The cyclic garbage collector waits while a reading is put together.

A reading makes tens of thousands of objects of which none is in a cycle; each time that some hundreds more have been
made the collector would visit all that is young, and now and then everything that the program holds.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No collection until the end of the block, if collections are on at all. Other threads may be in such a block as
    well: whoever found them on turns them on again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
