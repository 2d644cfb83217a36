"""Layout copies in the shards, changed by tests from outside."""

from __future__ import annotations

from acquisition.link.cluster import Cluster
from acquisition.link.resp import raise_for
from acquisition.wire import keys


def forget(cluster: Cluster) -> None:
    """Remove all copies."""
    for reply in cluster.gather([(copy, ("DEL", copy)) for copy in keys.layouts()]):
        raise_for(reply)


def put(cluster: Cluster, value: str) -> None:
    """Write this into all copies."""
    for reply in cluster.gather([(copy, ("SET", copy, value)) for copy in keys.layouts()]):
        raise_for(reply)
