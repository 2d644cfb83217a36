"""Frames that the ring gave up after the shard had stored them: whether they were applied the next reading tells.

A ring that holds ten seconds of frames, of a probe that reads the positions every ten seconds, gives up frames that
the filter applied long ago. They are no loss, and are not counted as one.
"""

from __future__ import annotations

from collections import deque

from acquisition.outbox.counts import Counts

_MOST = 1024  #: frames; more of them without a reading that settles anything, and the oldest count as dropped


class Unsettled:
    """Frames of one send window in the order of their numbers; those that were lost are counted in ``counts``."""

    __slots__ = ("_counts", "_frames")

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._frames: deque[tuple[int, int]] = deque()

    def add(self, sequence: int, samples: int) -> None:
        """The ring holds frame ``sequence`` no longer; the shard has stored it since the window went back last."""
        if len(self._frames) == _MOST:
            self._counts.drop(self._frames.popleft()[1])
        self._frames.append((sequence, samples))

    def settle(self, applied: int) -> None:
        """Everything up to ``applied`` was applied; the rest may still be."""
        frames = self._frames
        while frames and frames[0][0] <= applied:
            frames.popleft()

    def give_up(self) -> None:
        """Nothing in the stream counts any more: what was not applied until now is lost."""
        while self._frames:
            self._counts.drop(self._frames.popleft()[1])
