"""Watch for a change of the record format in the shards."""

from __future__ import annotations

import itertools
import time

from acquisition.link.cluster import Cluster
from acquisition.wire import keys, layout
from acquisition.wire.layout import Layout
from filters.runtime.background_jobs import BackgroundJobs, Outcome

_EVERY = 3.0  #: seconds between two checks
_LANE = "format"


class FormatWatch:
    """Checks in the background; ``changed``: the format has changed, and the worker must be rebuilt."""

    def __init__(self, cluster: Cluster, written: Layout, background: BackgroundJobs) -> None:
        self.changed = False
        self._cluster = cluster.another()
        self._format = written.record_format
        self._background = background
        self._copies = itertools.cycle(keys.layouts())
        self._due = time.monotonic() + _EVERY

    def turn(self) -> None:
        """Check if it is time; call between the turns of the worker."""
        if time.monotonic() >= self._due:
            self._due = float("inf")
            self._background.submit(_LANE, self._read, self._done)

    def _read(self) -> int:
        copy = next(self._copies)  # the shard of one copy may be down
        try:
            data = self._cluster.call(copy, "GET", copy)
        finally:
            self._cluster.close()
        return self._format if data is None else layout.decode(data).record_format

    def _done(self, outcome: Outcome) -> None:
        """Process the result; a shard that does not answer, or a damaged layout, changes nothing."""
        self._due = time.monotonic() + _EVERY
        self.changed = isinstance(outcome, int) and outcome > self._format
