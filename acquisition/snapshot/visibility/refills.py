"""Which partitions have lost what they held a moment ago: their shard has come back empty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from acquisition.errors import FrameError, PermissionRefused, ShardpulseError, TemporaryError
from acquisition.link.cluster import Cluster
from acquisition.snapshot.values.members import value_of
from acquisition.wire import keys
from acquisition.wire.layout import Layout

#: Seconds for which a host that its shard has lost stays in sight, and for which it is said that hosts may be missing:
#: probes come back within seconds. Filters forget hosts only that have been silent for very long.
KEPT = 60.0
LOST = TemporaryError("shards have lost what they knew of hosts a moment ago")


class RefillReader:
    """A reader cannot miss a host that it has never seen: so it asks how long each partition has held its data, until
    it has found the partition whole once. From then on it remembers who was there (``PositionReader``)."""

    def __init__(self, layout: Layout) -> None:
        self._commands = [(keys.began(tag), ("MGET", keys.began(tag), keys.commit(tag))) for tag in layout.tags]
        self._open = self._commands  #: what was not found whole yet
        self._last = -math.inf

    def read(self, cluster: Cluster, now: float, errors: Sequence[ShardpulseError]) -> list[ShardpulseError]:
        """LOST, if a partition has been emptied within the last minute and was not found whole before that; ``errors``
        are those of the reading so far: where shards do not answer, that is said, and nothing is asked. Beside it what
        may not be asked.

        Raises ShardError when no shard answers at all.
        """
        if not 0.0 <= now - self._last < KEPT / 2:  # it remembers nothing any more
            self._open = self._commands
        self._last = now
        if not self._open or not all(isinstance(error, FrameError) for error in errors):
            return []
        replies = [value_of(reply) for reply in cluster.gather(self._open)]
        found = [_is_lost(reply, now) for reply in replies]
        self._open = [command for command, lost in zip(self._open, found, strict=True) if lost is not False]
        refused = {str(reply): reply for reply in replies if isinstance(reply, PermissionRefused)}
        return [*refused.values(), *([LOST] if True in found else [])]


def _is_lost(reply: Any, now: float) -> bool | None:
    """Whether nobody has noted yet that a partition is empty, or somebody has just done so; None: it is not known."""
    if not isinstance(reply, list):
        return None
    began, commit = reply
    if began is None:
        return commit is None
    return began.isdigit() and int(began) > 0 and abs(now - int(began) / 1000.0) < KEPT
