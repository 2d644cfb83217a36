"""Isolation of a frame that cannot be smoothed: frames of other hosts keep their averages."""

from __future__ import annotations

from acquisition.log import TroubleLog
from filters.worker.compute.smoothing import Smoother
from filters.worker.partitions.batch import Accepted
from filters.worker.partitions.rejections import unforeseen

_CAREFUL = 10.0  #: so long each frame is smoothed alone, after one that could not be


class Isolation:
    """Smooths the frames of turns, whatever one of them raises."""

    def __init__(self, smoother: Smoother, log: TroubleLog) -> None:
        self._smoother = smoother
        self._log = log
        self._careful_until = 0.0

    def smooth(self, items: list[Accepted], now: float) -> set[int]:
        """Smooth frames and reject the one that raises.

        While it is not known which one that is, answers the partitions of all frames: their states are to be loaded
        again, and for a while each frame is smoothed alone.
        """
        for some in [items] if now >= self._careful_until else [[item] for item in items]:
            try:
                self._smoother.smooth(some)
            except Exception as error:  # whatever it is: no frame of a stranger ends a worker
                if len(some) > 1:
                    self._careful_until = now + _CAREFUL
                    text = f"one of {len(some)} frames cannot be smoothed, searching for it: {unforeseen(error)}"
                    self._log.tell(text, "smooth")
                    return {item.batch.number for item in some}
                some[0].batch.give_up(some[0], error)
        return set()
