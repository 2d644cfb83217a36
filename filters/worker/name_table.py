"""What a worker remembers of a resource set's table: the bytes to write again, and who is in it.

A decoded table of a hundred entities is some 70 KB of small objects, which Python's garbage
collector would visit again and again; at ten thousand hosts that is most of a worker's memory.
The bytes and one array of ids are a tenth of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model.metric import schema_hash
from acquisition.wire import table


class NameTable(NamedTuple):
    """``payload`` is the JSON of a whole table; ``ids`` uint64 (n,) sorted; ``metrics`` names in column order,
    ``schema`` the hash of the columns."""

    payload: bytes
    ids: npt.NDArray[np.uint64]
    metrics: tuple[str, ...]
    schema: int

    def covers(self, ids: npt.NDArray[np.uint64]) -> bool:
        """Whether all of ``ids`` have a name."""
        if not self.ids.size:
            return not ids.size
        at = np.minimum(np.searchsorted(self.ids, ids), self.ids.size - 1)
        return bool((self.ids[at] == ids).all())


def learn(old: NameTable | None, payload: bytes) -> NameTable:
    """What is known after a table frame: it replaces what was known when it is complete, else it adds to it.

    Raises FrameError when ``payload`` is no table; nothing is learnt then.
    """
    new = table.decode(payload)
    if not new.complete and old is not None:
        new = table.merge(table.decode(old.payload), new)
        payload = table.encode(new)
    ids = np.array([entity.id for entity in new.entities], np.uint64)
    ids.sort()
    return NameTable(payload, ids, tuple(metric.name for metric in new.metrics), schema_hash(new.metrics))
