"""Memory of a long-running process: garbage collection and freed arrays.

**Garbage.** CPython's collector visits every container again whenever their number has grown by a
quarter: with the state of ten thousand hosts that took 13% of a worker's CPU, with pauses of half
a second. Here only containers created since the last sweep are visited, and survivors are set aside
for good (``gc.freeze``). Reference counting still frees everything that is in no cycle; a
cycle that becomes garbage only after it was set aside stays, and we create none. A sweep nevertheless covers all
generations, which then hold no more: only such a sweep empties CPython's lists of free
tuples, 2,000 of each length, which an hour's tuples would otherwise fill with half a megabyte.

**Freed arrays.** A worker allocates and frees the same few megabytes many times a second. With glibc's defaults
each allocation is mapped and unmapped, and every page faults in again: half of the worker's
CPU time on the machine where this was found (docs/decisions/0061).
"""

from __future__ import annotations

import ctypes
import gc

_EVERY = 10.0
_MOST_SWEPT = 10_000  #: containers, a millisecond; more belong to an answer in progress, and are soon freed
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h, mallopt(3)
_KEEP = 1 << 28
_GROW = 1 << 24


class Sweeper:
    """Replaces the automatic collector of this process; call ``turn`` in the main loop."""

    def __init__(self) -> None:
        gc.disable()
        self._due = 0.0

    def turn(self, now: float) -> None:
        """Sweep when it is time; ``now`` is CLOCK_MONOTONIC."""
        if now >= self._due:
            self._due = now + _EVERY
            gc.collect()
            gc.freeze()


class TickSweeper:
    """Replaces the automatic collector of a process that creates much at every tick and answers without pauses between.

    ``set_aside`` takes no time however much was created; ``sweep``, later, visits only newer containers, and skips even
    those while they are many. Everything is visited once per ``whole_seconds``: libraries may create cycles that
    outlive a tick.
    """

    def __init__(self, whole_seconds: float, now: float) -> None:
        gc.disable()
        gc.freeze()
        self._whole_seconds = whole_seconds
        self._whole_due = now + whole_seconds

    def set_aside(self) -> None:
        """Call after a tick's work."""
        gc.freeze()

    def sweep(self, now: float) -> None:
        """Call between two ticks; ``now`` as in ``__init__``, CLOCK_MONOTONIC."""
        if now < self._whole_due:
            if gc.get_count()[0] <= _MOST_SWEPT:
                gc.collect(0)
            return
        self._whole_due = now + self._whole_seconds
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def keep_freed_memory() -> bool:
    """Keep up to 256 MB of free memory in the heap; false if the C library has no mallopt."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, _KEEP), (_M_TRIM_THRESHOLD, _KEEP), (_M_TOP_PAD, _GROW))
    return all(mallopt(name, value) == 1 for name, value in settings)
