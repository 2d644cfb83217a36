"""Reading side: coherent and latest snapshots over all shards, and the books.

Start at ``SnapshotReader``.
"""

from acquisition.snapshot.reader import SnapshotReader
from acquisition.snapshot.snapshot import Snapshot

__all__ = ["Snapshot", "SnapshotReader"]
