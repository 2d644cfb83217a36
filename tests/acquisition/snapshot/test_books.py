"""The books as they are read from shards: sums, records that are none, shards that do not answer."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.snapshot.reconcile import books
from acquisition.snapshot.reconcile.balance import ABSENT, DAMAGED, REPORTED, SILENT
from acquisition.wire import keys, position, status
from acquisition.wire.layout import Layout
from tests.support.accounts import account, done, sent
from tests.support.fixture_types import StartCluster

NUMBER = 2


def write_status(cluster: Cluster, layout: Layout, host: int, row: Any, seconds: int | None = 600, **rest: Any) -> None:
    sets = {f"{NUMBER:08x}": row}
    data = json.dumps({"format": 1, "host": "alpha", "wall": time.time(), "fields": row._fields, "sets": sets, **rest})
    key = keys.status(layout.tag_of(host), host)
    cluster.call(key, "SET", key, data, *(() if seconds is None else ("EX", seconds)))


def write_applied(cluster: Cluster, layout: Layout, host: int, data: bytes) -> None:
    key = keys.applied(layout.tag_of(host))
    cluster.call(key, "HSET", key, keys.member(host, NUMBER), data)


def test_totals() -> None:
    rows = [account(sent(), done(60), b"8-0"), account(sent(), done(80)), account(None, done(60))]
    found = books.totals(rows)
    assert (found.accounts, found.made, found.applied, found.lost, found.pending) == (3, 260, 200, 0, 60)
    assert (found.missing, found.unbalanced, found.unreported, found.silent) == (20, 0, 1, 0)
    assert books.totals([]).accounts == 0


def test_accounts_are_read_whole(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    for host in range(1, 150):  # more than one per partition
        write_status(cluster, layout, host, sent(), 600 if host % 2 else 580)
        write_applied(cluster, layout, host, position.encode(done(80)))
    commit = keys.commit(layout.tag_of(1))
    cluster.call(commit, "SET", commit, b"abc 9-0 4 17.5")
    found = books.read(cluster, layout)
    assert found.balanced, found.faults
    assert [row.host for row in found.accounts] == list(range(1, 150))
    assert {row.report for row in found.accounts if row.host % 2} == {REPORTED}
    assert {row.report for row in found.accounts if not row.host % 2} == {SILENT}
    assert (found.cursors[layout.tag_of(1)], found.rejected) == (b"9-0", 4)
    assert books.totals(found.accounts).pending == 149 * 20


def test_a_record_without_expiry_is_judged_by_its_time(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    write_status(cluster, layout, 1, sent(), None)
    assert books.read(cluster, layout).accounts[0].report == REPORTED
    assert books.read(cluster, layout, wall=lambda: time.time() + 60).accounts[0].report == SILENT


def test_a_probe_that_reports_rarely_is_not_silent_sooner(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    for host, every in ((1, 60.0), (2, 2.0), (3, "often")):
        write_status(cluster, layout, host, sent(), 500, position_interval=every)
    assert [row.report for row in books.read(cluster, layout).accounts] == [REPORTED, SILENT, SILENT]


def test_records_that_are_none_are_named(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    tag = layout.tag_of(1)
    cluster.call(keys.status(tag, 1), "SET", keys.status(tag, 1), b"{")
    odd = f"status:{{{tag}}}:no-host"
    cluster.call(odd, "SET", odd, b"{}")
    write_applied(cluster, layout, 1, position.encode(done(5)))
    key = keys.applied(tag)
    cluster.call(key, "HSET", key, keys.member(1, 3), b"short", "no member", position.encode(done(5)))
    cluster.call(keys.commit(tag), "SET", keys.commit(tag), b"\x1b[2J")
    found = books.read(cluster, layout)
    assert [(row.host, row.resource_set, row.applied, row.report) for row in found.accounts] == [(1, 2, 5, DAMAGED)]
    assert not found.balanced
    text = "\n".join(found.faults)
    for words in (keys.status(tag, 1), "no-host", keys.member(1, 3), "no member", keys.commit(tag)):
        assert words in text
    assert "\x1b" not in text


def test_keys_of_other_types_are_named(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    write_applied(cluster, layout, 1, position.encode(done(5)))
    write_applied(cluster, layout, 2, position.encode(done(5)))
    status_key, applied_key = keys.status(layout.tag_of(2), 2), keys.applied(layout.tag_of(3))
    cluster.call(status_key, "LPUSH", status_key, "x")
    cluster.call(applied_key, "SET", applied_key, "not a hash")
    found = books.read(cluster, layout)
    assert [(row.host, row.report) for row in found.accounts] == [(1, ABSENT), (2, DAMAGED)]
    assert "WRONGTYPE" in found.unreadable[layout.tag_of(3)]
    assert not found.balanced
    with pytest.raises(ShardpulseError, match="WRONGTYPE"):
        books.read_books(cluster, layout)


def test_a_shard_that_is_gone_is_named_and_the_others_are_read(start_cluster: StartCluster) -> None:
    shards = start_cluster(2)
    cluster = shards.connect()
    layout = read_layout(cluster)
    write_applied(cluster, layout, 0, position.encode(done(5)))
    write_applied(cluster, layout, 63, position.encode(done(5)))
    os.kill(shards.pids[1], signal.SIGKILL)
    found = books.read(cluster, layout)
    cluster.close()
    assert [row.host for row in found.accounts] == [0]
    assert len(found.unreadable) == layout.partitions // 2
    assert not found.balanced
    assert str(shards.addresses[1]) in found.faults[0]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.binary(max_size=130),
    st.binary(min_size=118, max_size=118),
    st.lists(json_values, min_size=13, max_size=13),
    st.binary(max_size=50),
    st.booleans(),
)
def test_hostile_records_are_read_in_order(
    cluster: Cluster, rubbish: bytes, counts: bytes, row: list[Any], commit: bytes, rubbish_status: bool
) -> None:
    layout = read_layout(cluster)
    tag = layout.tag_of(1)
    write_applied(cluster, layout, 1, rubbish)
    key = keys.applied(tag)
    cluster.call(key, "HSET", key, keys.member(1, 9), bytes([position.VERSION, 0]) + counts, rubbish, rubbish)
    cluster.call(keys.commit(tag), "SET", keys.commit(tag), commit)
    document = {"format": 1, "host": "\x1b[2J", "wall": 1.0, "fields": status.SetStatus._fields}
    document["sets"] = {"00000002": row, "00000009": [1, 5, 5, 1, 5, "5-0", 5, 5, 0, 0, 0, 0, 5]}
    record = rubbish if rubbish_status else json.dumps(document).encode()
    cluster.call(keys.status(tag, 1), "SET", keys.status(tag, 1), record)
    found = books.read(cluster, layout)
    assert not found.balanced
    assert found.faults
