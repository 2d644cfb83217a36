"""The reading side: coherent and latest snapshots of the smoothed state over all shards, and the books.

Start at ``SnapshotReader``.
"""

from acquisition.snapshot.reader import Snapshot, SnapshotReader

__all__ = ["Snapshot", "SnapshotReader"]
