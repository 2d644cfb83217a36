"""Slow filter: the product's, limited to a rate in samples per second.

The speed of this machine does not matter.

    python -m experiments.chaos.slow_filter CAPACITY OPTIONS_OF_THE_FILTER

One kernel waits after every batch for as long as a machine of that capacity would have worked. Everything
else is ``shardpulse filter``; to itself and to others it looks like a worker on a busy core.
"""

from __future__ import annotations

import dataclasses
import sys
import time

from filters import kernels
from filters.kernels.step import Floats, Step
from filters.worker import command


class Slowness:
    """Time debt for samples; ``capacity`` in samples per second."""

    def __init__(self, capacity: float) -> None:
        self._per_sample = 1.0 / capacity
        self._free_at = 0.0

    def work(self, samples: int) -> None:
        """Be busy for ``samples`` samples."""
        now = time.monotonic()
        self._free_at = max(now, self._free_at) + samples * self._per_sample
        time.sleep(self._free_at - now)


def main(argv: list[str]) -> int:
    """Smooth until SIGTERM."""
    slowness = Slowness(float(argv[0]))
    quick = kernels.REGISTRY["mean"]

    def update(step: Step, out: Floats) -> None:
        quick.update(step, out)
        slowness.work(step.x.size)

    kernels.REGISTRY["mean"] = dataclasses.replace(quick, update=update)
    return command.main(argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
