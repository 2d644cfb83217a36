"""The newest frames of an outbox, kept in the process until they were sent once: then nobody needs to read the ring."""

from __future__ import annotations

_MOST_BYTES = 1 << 17


class RecentFrames:
    """Frames by index, as many of the newest as are within a bound, one at least."""

    __slots__ = ("_bytes", "_frames")

    def __init__(self) -> None:
        self._frames: dict[int, bytes] = {}
        self._bytes = 0

    def add(self, index: int, data: bytes) -> None:
        """Keep a frame that is newer than all others."""
        frames = self._frames
        frames[index] = data
        self._bytes += len(data)
        while self._bytes > _MOST_BYTES and len(frames) > 1:
            self.take(next(iter(frames)))

    def take(self, index: int) -> bytes | None:
        """The frame, which is not kept any longer; None when it was not."""
        data = self._frames.pop(index, None)
        if data is not None:
            self._bytes -= len(data)
        return data
