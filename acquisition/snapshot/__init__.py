"""The reading side: coherent and latest snapshots of the smoothed state over all shards, and the books.

Start at ``SnapshotReader``; who asks many times a second reads with a ``ReadyReader``.
"""

from acquisition.snapshot.reader import SnapshotReader
from acquisition.snapshot.ready import ReadyReader
from acquisition.snapshot.snapshot import Snapshot

__all__ = ["ReadyReader", "Snapshot", "SnapshotReader"]
