"""Command ``shardpulse`` without a collector; SIGUSR1 counts garbage in cycles.

The count goes to stderr.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections import Counter

from acquisition.cli import main
from filters.runtime.memory import TickSweeper


def count(*_: object) -> None:
    gc.set_debug(gc.DEBUG_SAVEALL)
    found = gc.collect()
    gc.set_debug(0)
    kinds = Counter(type(each).__qualname__ for each in gc.garbage)
    gc.garbage.clear()
    gc.collect()  # they were only looked at: now they go
    print("garbage", found, kinds.most_common(10), file=sys.stderr, flush=True)


gc.disable()
gc.freeze = lambda: None  # what is set aside would not be counted
TickSweeper.sweep = lambda *_: None  # type: ignore[method-assign]  # nor what is swept, some of which is set aside first
signal.signal(signal.SIGUSR1, count)
sys.exit(main(sys.argv[1:]))
