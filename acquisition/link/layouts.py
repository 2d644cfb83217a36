"""Layout of a cluster in its shards: stored, read, raised, awaited."""

from __future__ import annotations

from acquisition.errors import AdmissionError, ConfigError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import raise_for
from acquisition.wire import keys
from acquisition.wire.layout import Layout, decode, encode
from acquisition.wire.records import record_format

#: Seconds until starting shards must have their layout: they answer before it is written.
LAYOUT_SECONDS = 10.0


def write_layout(
    cluster: Cluster,
    partitions: int,
    keep_ticks: int = keys.DEFAULT_KEEP_TICKS,
    record_format: int = record_format.NEWEST,
) -> None:
    """Store the layout of a new cluster, and that all partitions began with it; existing values are never changed."""
    layout = Layout(partitions, keep_ticks, record_format)
    for reply in cluster.gather([(keys.began(tag), began_command(tag, 0.0)) for tag in layout.tags]):
        raise_for(reply)
    restore_layout(cluster, layout)


def restore_layout(cluster: Cluster, layout: Layout) -> None:
    """Store the layout of a cluster again wherever it may have been lost."""
    for reply in cluster.gather([(copy, layout_command(copy, layout)) for copy in keys.layouts()]):
        raise_for(reply)


def layout_command(copy: str, layout: Layout) -> tuple[str, ...]:
    """Command that stores a copy of the layout if it is missing."""
    return ("SET", copy, encode(layout), "NX")


def began_command(tag: str, now: float) -> tuple[str, ...]:
    """Command that notes since when a partition holds anything, if that is unknown: 0.0 if with the layout."""
    return ("SET", keys.began(tag), str(int(now * 1000.0)), "NX")


def read_layout(cluster: Cluster) -> Layout:
    """Layout of the cluster, from any shard that answers.

    Raises ConfigError if it is absent, or if its format or its record format is unknown to this version; the cause if
    no copy can be read.
    """
    found: list[Layout] = []
    problem: ShardpulseError | None = None
    for reply in cluster.gather([(copy, ("GET", copy)) for copy in keys.layouts()]):
        try:
            if (data := raise_for(reply)) is not None:
                found.append(decode(data))
        except ShardpulseError as error:  # a dead shard or a damaged copy: others will do
            problem = problem or error
    if not found:
        raise problem or ConfigError("these shards have no shardpulse layout; start them with `shardpulse shards up`")
    newest = max(found, key=lambda one: one.record_format)  # it is raised on one shard after the other
    record_format.versions(newest.record_format)
    return newest


def raise_record_format(cluster: Cluster) -> int:
    """Store the newest record format in the layout; returns the previous one. Raises ConfigError as ``read_layout``."""
    found = read_layout(cluster)
    if found.record_format != record_format.NEWEST:
        raised = found._replace(record_format=record_format.NEWEST)
        for reply in cluster.gather([(copy, ("SET", copy, encode(raised))) for copy in keys.layouts()]):
            raise_for(reply)
    return found.record_format


class LayoutPatience:
    """``seconds`` for shards that cannot be reached; LAYOUT_SECONDS for those that answer without a layout, from the
    first such answer, however long they could not be reached before. None for a shard that must not be
    contacted: that does not pass."""

    def __init__(self, seconds: float, now: float) -> None:
        self._until = now + seconds
        self._without_since: float | None = None

    def ends(self, error: Exception, now: float) -> bool:
        """Whether ``error``, met at ``now`` (seconds of a monotonic clock), is to be raised instead of waited out."""
        if isinstance(error, AdmissionError):
            return True
        if not isinstance(error, ConfigError):
            self._without_since = None
            return now >= self._until
        if self._without_since is None:
            self._without_since = now
        return now >= min(self._until, self._without_since + LAYOUT_SECONDS)
