"""Hosts of which filters have lately rejected frames for their size, as their events say."""

from __future__ import annotations

from acquisition.link import happenings
from acquisition.link.cluster import Cluster
from acquisition.wire import keys
from acquisition.wire.layout import Layout
from acquisition.wire.rejected import LIMIT

_LATELY = 300.0  #: seconds; a filter writes one event per host and minute


def read(cluster: Cluster, layout: Layout, now: float) -> dict[int, str]:
    """The newest reason by host; ``now`` in seconds since 1970. Shards that do not answer are passed over."""
    since = round((now - _LATELY) * 1000)
    names = [keys.events(tag) for tag in layout.tags]
    found: dict[int, str] = {}
    for reply in cluster.gather([(name, ("XRANGE", name, since, "+")) for name in names]):
        events = [happenings.decode(*entry) for entry in reply] if isinstance(reply, list) else []
        found |= {
            event.host: str(event.details.get("reason", ""))
            for event in events
            if event is not None and event.kind == LIMIT and event.host is not None
        }
    return found
