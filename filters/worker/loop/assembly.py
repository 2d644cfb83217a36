"""Assembly of a filter worker from its shared parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from acquisition.link.cluster import Cluster
from acquisition.log import TroubleLog, category
from acquisition.wire.layout import Layout
from acquisition.wire.lease import Holder
from filters import kernels
from filters.runtime.background_jobs import BackgroundJobs
from filters.worker.loop.format_watch import FormatWatch
from filters.worker.loop.guard import Guard
from filters.worker.loop.lease_link import Link
from filters.worker.loop.leases import Leases
from filters.worker.loop.loader import Loader
from filters.worker.loop.poller import Poller
from filters.worker.loop.shard_map import ShardMap
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings

Report = Callable[[str], None]


say = category("filter")  #: messages to people


class _Shared(NamedTuple):
    """Parts that a worker and its leases share."""

    poller: Poller
    background: BackgroundJobs
    shard_map: ShardMap
    log: TroubleLog


def lone_worker(
    cluster: Cluster,
    layout: Layout,
    settings: FilterSettings,
    numbers: Iterable[int] | None = None,
    report: Report = say,
) -> Worker:
    """A worker for the partitions ``numbers`` (all by default), without leases."""
    worker = _worker(cluster, layout, settings, _shared(cluster, layout, report))
    for number in range(layout.partitions) if numbers is None else numbers:
        worker.take(number)
    return worker


def leasing_worker(
    cluster: Cluster, layout: Layout, settings: FilterSettings, me: Holder, report: Report = say
) -> tuple[Worker, Leases, FormatWatch, Guard]:
    """A worker for the partitions whose leases it gets; call ``turn`` of leases, watch and guard
    between its turns."""
    shared = _shared(cluster, layout, report)
    worker = _worker(cluster, layout, settings, shared)
    open_link = partial(Link, connect=cluster.connect, background=shared.background, poller=shared.poller)
    leases = Leases(worker, shared.shard_map, open_link, layout.tags, me, shared.log)
    guard = Guard(cluster, layout, worker, shared.background, shared.log)
    return worker, leases, FormatWatch(cluster, layout, shared.background), guard


def _shared(cluster: Cluster, layout: Layout, report: Report) -> _Shared:
    poller, background, log = Poller(), BackgroundJobs(), TroubleLog(report)
    poller.watch(background.fileno(), background.deliver)
    return _Shared(poller, background, ShardMap(cluster, layout, background, log), log)


def _worker(cluster: Cluster, layout: Layout, settings: FilterSettings, shared: _Shared) -> Worker:
    settings = settings.written_as(layout.record_format)
    chosen = kernels.select(settings.kernels)
    loader = Loader(cluster, layout, settings, chosen, shared.background)
    return Worker(settings, chosen, loader, shared.shard_map, shared.poller, shared.background, shared.log)
