"""Keep freed memory in the process: glibc gives large arrays back to the kernel at every turn.

A worker allocates and frees the same few megabytes many times a second. With glibc's defaults
each of them is mapped and unmapped, and every page of it faults in anew: half of the worker's
CPU time on the machine where this was found (docs/decisions/0007).
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h, mallopt(3)
_KEEP = 1 << 28
_GROW = 1 << 24


def keep_freed_memory() -> bool:
    """Up to 256 MB of free memory stay in the heap; false where the C library has no mallopt."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, _KEEP), (_M_TRIM_THRESHOLD, _KEEP), (_M_TOP_PAD, _GROW))
    return all(mallopt(name, value) == 1 for name, value in settings)
