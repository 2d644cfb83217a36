"""Recent events: the newest of each kind and host, or kind and VM.

Filters and services repeat each report every minute while it lasts, so one not repeated for some minutes is over.
"""

from __future__ import annotations

from acquisition.errors import ShardpulseError
from acquisition.link import happenings
from acquisition.link.cluster import Cluster
from acquisition.link.happenings import CONFLICT, CONFLICT_OVER, VM_COPIED, VM_ONCE, VM_RENAMED, VM_TWICE, Entry
from acquisition.snapshot.reconcile.registered import noted
from acquisition.status.finding import RecentEvent
from acquisition.wire import keys
from acquisition.wire.layout import Layout
from acquisition.wire.rejected import LIMIT

_SECONDS = 300.0
_ENDS = {CONFLICT_OVER: CONFLICT, VM_ONCE: VM_TWICE}
_OF_HOSTS = {LIMIT, CONFLICT}
_OF_VMS = {VM_RENAMED, VM_COPIED, VM_TWICE}


def read(cluster: Cluster, layout: Layout, now: float, errors: list[ShardpulseError]) -> list[RecentEvent]:
    """By host, kind and VM; ``now`` in seconds since 1970. Shards that do not answer are skipped; their errors
    are added to ``errors``."""
    since = round((now - _SECONDS) * 1000)
    names = [keys.events(tag) for tag in layout.tags]
    found: dict[tuple[int, str, str], str] = {}
    for reply in noted(cluster.gather([(name, ("XRANGE", name, since, "+")) for name in names]), errors):
        for entry in reply if isinstance(reply, list) else ():
            event = happenings.decode(*entry)
            if event is not None:
                _take(found, event)
    return [RecentEvent(*about, reason) for about, reason in sorted(found.items())]


def _take(found: dict[tuple[int, str, str], str], event: Entry) -> None:
    kind = _ENDS.get(event.kind, event.kind)
    if kind in _OF_VMS:
        about = 0, kind, str(event.details.get("vm", ""))
    elif kind in _OF_HOSTS and event.host is not None:
        about = event.host, kind, ""
    else:
        return
    if kind == event.kind:
        found[about] = str(event.details.get("reason", ""))
    else:
        found.pop(about, None)
