"""What the shards know of registered readers, and what status says of it."""

from __future__ import annotations

import time

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.snapshot.reconcile import registered
from acquisition.snapshot.reconcile.registered import Registered
from acquisition.status.finding import NOTE, STALE
from acquisition.status.part_findings import of_readers
from acquisition.wire import keys, readers
from acquisition.wire.readers import Reader


def claim(cluster: Cluster, partition: int, name: str, reader: Reader | bytes) -> None:
    key = keys.readers(read_layout(cluster).tags[partition])
    value = reader if isinstance(reader, bytes) else readers.encode(reader)
    cluster.call(key, "HSET", key, name, value)


def test_a_reader_is_as_far_as_its_last_partition(cluster: Cluster) -> None:
    now = round(time.time() * 1000)
    alive = now + 900_000
    claim(cluster, 0, "archive", Reader(b"1-0", alive, now - 50_000, 100, 0, 7))
    claim(cluster, 1, "archive", Reader(b"1-0", alive, now, 200, 3, 5, "disk full"))
    claim(cluster, 2, "old", Reader(b"1-0", now - 1000, now, trouble="what was once"))
    claim(cluster, 3, "none", b"garbage")
    first, second = registered.read(cluster, read_layout(cluster))
    assert 50 <= first.behind_seconds < 50 + 60
    assert first._replace(behind_seconds=0.0) == Registered("archive", 2, 0.0, 0, 300, 3, 12, {}, "disk full")
    assert (second.name, second.expired, second.trouble) == ("old", 1, "")


def test_what_status_finds() -> None:
    well = Registered("archive", 64, 4.0, 0, 100, 0, 10)
    assert of_readers([well]) == []
    assert [one.kind for one in of_readers([well._replace(behind_seconds=31.0)])] == [STALE]
    waiting = well._replace(trouble="disk full")
    assert [(one.kind, one.text) for one in of_readers([waiting])] == [(NOTE, "waits: disk full")]
    assert "31 s behind: disk full" in of_readers([waiting._replace(behind_seconds=31.0)])[0].text
    assert [one.kind for one in of_readers([well._replace(expired=3, gap=7)])] == [STALE, NOTE]
