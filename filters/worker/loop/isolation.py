"""Isolation of a frame that cannot be smoothed from those of other hosts."""

from __future__ import annotations

from acquisition.log import TroubleLog
from filters.worker.compute.smoothing import Smoother
from filters.worker.partitions.batch import Accepted
from filters.worker.partitions.rejections import unforeseen

_CAREFUL = 10.0  #: seconds for which each frame is smoothed alone after a failure


class Isolation:
    """Finds the frame that raises. Until ``careful_until`` (CLOCK_MONOTONIC) each frame is smoothed alone."""

    def __init__(self, smoother: Smoother, log: TroubleLog) -> None:
        self.careful_until = 0.0
        self._smoother = smoother
        self._log = log

    def smooth_each(self, items: list[Accepted]) -> None:
        """Smooth frames one by one, and reject those that raise."""
        for item in items:
            try:
                self._smoother.smooth([item])
            except Exception as error:  # of any kind: no frame from outside may end a worker
                item.batch.give_up(item, error)

    def begin(self, items: list[Accepted], error: Exception, now: float) -> set[int]:
        """Reject the frame that raised an error; with several frames it is unknown which one did.

        In that case, returns the partitions of all frames: their states must be loaded again, and for a while each
        frame is smoothed alone.
        """
        if len(items) == 1:
            items[0].batch.give_up(items[0], error)
            return set()
        self.careful_until = now + _CAREFUL
        text = f"one of {len(items)} frames cannot be smoothed, searching for it: {unforeseen(error)}"
        self._log.tell(text, "smooth")
        return {item.batch.number for item in items}
