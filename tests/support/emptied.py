"""Emptied session shards: no data but the layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import write_layout
from acquisition.link.resp import Address
from acquisition.shards.servers.launch import Shards
from acquisition.wire.keys import DEFAULT_PARTITIONS, began, tags


def flush(cluster: Cluster, addresses: Iterable[tuple[str, int]]) -> None:
    """Empty these shards."""
    for address in addresses:
        with closing(cluster.connect(Address(*address))) as connection:
            connection.call("FLUSHALL")


@contextmanager
def emptied(shards: Shards) -> Iterator[Cluster]:
    """A connection to shards that were emptied and have their layout again."""
    with closing(shards.connect()) as connected:
        flush(connected, shards.addresses)
        # a filter of the test before may be loading in a thread still, and note that it finds nothing here
        connected.gather([(began(tag), ("SET", began(tag), "0")) for tag in tags(DEFAULT_PARTITIONS)])
        write_layout(connected, DEFAULT_PARTITIONS)
        yield connected
