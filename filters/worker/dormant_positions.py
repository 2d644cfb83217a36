"""Where dormant resource sets stood, those that were not heard of and are forgotten: so that they go on counting.

Without it, a host that comes back after a power cut of an hour would look like one that never was, and its
gap of unknown size like none; and the frames of a set that was dormant for a while, still held by its
probe, would be applied twice.
"""

from __future__ import annotations

from acquisition.errors import FrameError
from acquisition.link.resp import packed
from acquisition.wire import keys, position
from filters.worker.state import State

_KEPT_SECONDS = 30 * 86400
_MOST = 10_000  #: of a partition; a position takes some 200 bytes in a shard


class DormantPositions:
    """The positions of a partition's forgotten sets, by their field in ``dormant:{tag}``."""

    def __init__(self, tag: str) -> None:
        self.key = keys.dormant(tag)
        self._positions: dict[bytes, bytes] = {}

    def load(self, rows: list[bytes]) -> None:
        """Take what the shard holds: fields and positions in turn."""
        self._positions = dict(zip(rows[::2], rows[1::2], strict=True))

    def keep(self, state: State) -> list[bytes]:
        """The commands that remember a set which is being forgotten."""
        if len(self._positions) >= _MOST or not state.track.epoch:
            return []
        data = self._positions[state.member] = bytes(state.track)
        return [packed(("HSET", self.key, state.member, data)), packed(("EXPIRE", self.key, _KEPT_SECONDS))]

    def recall(self, state: State) -> list[bytes]:
        """Let a new state go on where it stood; the commands that forget that it was dormant."""
        data = self._positions.pop(state.member, None)
        if data is None:
            return []
        try:
            state.track.restore(position.decode(data))
            state.ask_for_table()
        except FrameError:
            pass  # somebody else wrote it: the set is a new one
        return [packed(("HDEL", self.key, state.member))]
