"""Held partitions for readers, where no leasing worker runs.

Without them hosts would be unknown.
"""

from __future__ import annotations

import time

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.wire import keys, lease
from acquisition.wire.lease import Holder

_BEFORE, _AFTER = 30, 90


def hold_partitions(cluster: Cluster) -> None:
    """Leases of all partitions, that never end."""
    holder = lease.encode(Holder("0" * 16, 2000, "test"))
    tags = read_layout(cluster).tags
    cluster.gather([(keys.lease(tag), ("SET", keys.lease(tag), holder)) for tag in tags])


def hear_probes(cluster: Cluster) -> None:
    """Entries of the last half minute in all raw streams, and of the time in which a test may look: as of probes that
    are heard all along."""
    now = time.time()
    entries = [f"{int(1000 * (now - ago))}-1" for ago in range(_BEFORE, -_AFTER, -1)]
    streams = [(keys.raw(tag), entry) for tag in read_layout(cluster).tags for entry in entries]
    cluster.gather([(key, ("XADD", key, entry, "f", b"")) for key, entry in streams])
