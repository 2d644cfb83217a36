"""Names that nobody would choose, on their whole way: frame, shard, archiver, tables, view; of VMs that come and go."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from acquisition.link.cluster import Cluster
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.wire import frame as wire
from acquisition.wire import keys, table
from acquisition.wire.frame import Frame
from acquisition.wire.table import Entity, Table
from filters.archive.database.store import open_store
from filters.archive.minutes.escape import signed, unescape
from filters.archive.minutes.gathering import Whereabouts
from tests.support.archive_rows import rows
from tests.support.archive_scene import archiver, turn_until

NAMES = (
    "a'b\"c`d;--", "a\0b", "a\r\nb\tc\\N\\.\\", "ä" * 300, "مرحبا\u202e\u2066", "\x1a0000", "%s%(a)s:x", "\\\\x00", "",
    "\x1b[2J", "\U0001f600\u0300", "NULL", "'); DROP TABLE hosts; --",
)  # fmt: skip
SET, HOST = "vms", host_id("".join(NAMES))
METRICS = tuple(Metric(f"{name}{n}", name[:200], "gauge", 0.0, 100.0, name) for n, name in enumerate(NAMES[:3]))
SCHEMA = schema_hash(METRICS)
SECONDS = 130


def entities() -> list[Entity]:
    return [Entity(entity_id("vm", name, name), "vm", name, name, name, {name: name}) for name in NAMES]


def frames() -> Iterator[Frame]:
    """Tables with the names, between which one comes that nobody can read, and samples that are all 5."""
    known = Table("".join(NAMES), SET, 1.0, "made up", True, METRICS, (*entities(),))
    good = table.encode(known)
    bad = [good.replace(b'"vm"', name) for name in (b'"\\ud83d"', b'"\xff\xfe"')]
    ids = b"".join(sorted(entity.id.to_bytes(8, "little") for entity in entities()))
    values = b"\x00\x00\xa0\x40" * len(NAMES) * len(METRICS)
    began, number = int(time.time()) - 120 - SECONDS, 0
    for second in range(SECONDS):
        for payload in [good, *bad] if second in (0, 70) else []:
            number += 1
            yield _frame(number, began + second, second, payload=payload)
        number += 1
        yield _frame(number, began + second, second, ids, values)


def _frame(number: int, tick: int, before: int, ids: bytes = b"", values: bytes = b"", payload: bytes = b"") -> Frame:
    made = before * len(NAMES) * len(METRICS)
    kind, shape = (wire.KIND_TABLE, (0, 0)) if payload else (wire.KIND_SAMPLES, (len(NAMES), len(METRICS)))
    return Frame(
        kind, SCHEMA, HOST, resource_set_id(SET), *shape, 1.0, 1, number, 1, made, tick, float(tick), float(tick),
        ids, values, b"", payload=payload,
    )  # fmt: skip


def test_hostile_names_on_their_whole_way(cluster: Cluster, migrated: str) -> None:
    raw = keys.raw(keys.tags(keys.DEFAULT_PARTITIONS)[keys.partition_of(HOST, keys.DEFAULT_PARTITIONS)])
    samples = SECONDS * len(NAMES) * len(METRICS)
    for n, one in enumerate(frames()):
        cluster.call(raw, "XADD", raw, f"{one.tick * 1000 + 500}-{n}", "f", wire.encode(one))
    with open_store(migrated, "".join(NAMES)) as store:
        follower = archiver(cluster, store, grace=0.2)
        turn_until(follower, lambda: follower.counts.archived == samples)
    named = {signed(entity.id): entity for entity in entities()}
    for key, *found, labels in rows(migrated, "SELECT entity, stable, epoch, name, labels FROM entities"):
        assert tuple(map(unescape, found)) == named[key][2:5]
        assert isinstance(labels, str)
    kept = {unescape(name) for (name,) in rows(migrated, "SELECT name FROM entity_names")}
    assert kept == set(NAMES)
    (host,) = rows(migrated, "SELECT name FROM hosts")
    assert unescape(host[0]) == "".join(NAMES)
    by_metric = (
        "SELECT entity, metric, sum(valid), max(mean) FROM rollup_values WHERE level = 60 GROUP BY entity, metric"
    )
    seen = {(entity, unescape(name)): (int(valid), mean) for entity, name, valid, mean in rows(migrated, by_metric)}
    assert seen == {(entity, metric.name): (SECONDS, 5.0) for entity in named for metric in METRICS}


def test_where_vms_were_is_forgotten_an_hour_after_they_have_gone() -> None:
    seen = Whereabouts()
    for n in range(1000):
        assert seen.appears(f"vm {n}", 1, 60.0 * n) is None
        seen.vanishes(f"vm {n}", 1, 60.0 * n + 60.0)
    assert len(seen) <= 62
    assert seen.appears("vm 999", 2, 61_000.0) == 1
    seen.vanishes("vm 999", 1, 61_060.0)  # of the host that it has left
    assert seen.appears("vm 999", 2, 61_060.0) is None
    assert seen.appears("vm 999", 1, 69_000.0) == 2


@pytest.mark.parametrize("stable", ["", "vm"])
def test_who_never_vanishes_is_not_forgotten(stable: str) -> None:
    seen = Whereabouts()
    assert seen.appears(stable, 1, 0.0) is None
    seen.vanishes("other", 1, 1e6)
    assert seen.appears(stable, 2, 1e6) == 1
