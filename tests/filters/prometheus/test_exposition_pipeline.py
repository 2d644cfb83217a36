"""The condition of the pipeline as families: what is known, and what is not and therefore absent."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from acquisition.model.identity import entity_id, host_id
from acquisition.shards.servers.status import ShardStatus
from acquisition.snapshot import Snapshot
from acquisition.snapshot.reconcile.balance import SILENT
from acquisition.snapshot.visibility.workers import Lag, Worker, Workers
from acquisition.status.finding import DOWN, NOTE, Finding
from acquisition.status.health import Health
from acquisition.wire.table import Entity
from filters.prometheus import Options, render
from probes.metrics import VMS
from tests.support.exposition_blocks import block, host_entity, process, snapshot
from tests.support.exposition_parts import account, health


def read(condition: Health, found: Snapshot | None = None) -> dict[str, dict[tuple[str, ...], float]]:
    text = render(found or snapshot(block("web", "host", [host_entity("web")])), condition).decode()
    return {
        name: {tuple(s.labels.values()): s.value for s in family.samples if s.name == name}
        for family in openmetrics.text_string_to_metric_families(text)
        for name in {sample.name for sample in family.samples}
    }


def test_books_of_a_host_that_works() -> None:
    series = read(health(account("web")))
    web = ("web", "host")
    assert series["shardpulse_books_made_samples_total"] == {web: 100}
    assert series["shardpulse_books_pending_samples"] == {web: 10}
    assert series["shardpulse_books_difference_samples"] == {web: 0}
    assert series["shardpulse_books_faults"] == {web: 0}
    assert series["shardpulse_books_balanced"] == {(): 1}
    assert series["shardpulse_books_rejected_entries_total"] == {(): 4}
    assert series["shardpulse_probe_report_age_seconds"] == {web: 1.5}
    assert series["shardpulse_probe_known"] == {web: 1}
    assert series["shardpulse_probe_silent"] == {web: 0}


def test_books_that_do_not_balance() -> None:
    series = read(health(account("web", made=105, faults=("5 samples are unaccounted for",))))
    assert series["shardpulse_books_difference_samples"] == {("web", "host"): 5}
    assert series["shardpulse_books_faults"] == {("web", "host"): 1}
    assert series["shardpulse_books_balanced"] == {(): 0}


def test_a_pipeline_that_could_not_be_read_has_no_figures() -> None:
    series = read(health(readable=False))
    assert [name for name in series if name.startswith(("shardpulse_books_", "shardpulse_filter_"))] == []


def test_of_a_silent_probe_nothing_is_pending_for_all_we_know() -> None:
    series = read(health(account("web", report=SILENT, report_age=60.0)))
    assert series["shardpulse_probe_silent"] == {("web", "host"): 1}
    assert series["shardpulse_probe_known"] == {("web", "host"): 0}
    assert "shardpulse_books_pending_samples" not in series


def test_a_host_that_no_table_names_has_its_own_name_or_its_id() -> None:
    series = read(health(account("new"), account("liar", name="web"), account("none", name="\ud800")))
    assert {labels[0] for labels in series["shardpulse_books_faults"]} == {
        "new", f"{host_id('liar'):016x}", f"{host_id('none'):016x}",
    }  # fmt: skip


def test_books_that_cannot_be_read_are_absent_not_balanced() -> None:
    series = read(health(readable=False, findings=[Finding(DOWN, "books", "no"), Finding(NOTE, "x", "y")]))
    assert not [name for name in series if name.startswith("shardpulse_books")]
    assert series["shardpulse_findings"] == {("unbalanced",): 0, ("down",): 1, ("stale",): 0, ("note",): 1}


def test_shards() -> None:
    rows = [
        ShardStatus("a:1", True, role="master", memory_bytes=5, memory_limit_bytes=10, pinned=True, slots=3),
        ShardStatus("b:1", True, role="replica", replica_of="a:1", in_sync=False),
        ShardStatus("c:1", False, "refused"),
    ]
    series = read(health(shards=rows))
    assert series["shardpulse_shard_up"] == {("a:1",): 1, ("b:1",): 1, ("c:1",): 0}
    assert series["shardpulse_shard_master"] == {("a:1",): 1, ("b:1",): 0}
    assert series["shardpulse_shard_memory_bytes"] == {("a:1",): 5, ("b:1",): 0}
    assert series["shardpulse_shard_memory_limit_bytes"] == {("a:1",): 10}
    assert series["shardpulse_shard_pinned"] == {("a:1",): 1}
    assert series["shardpulse_shard_replica_in_sync"] == {("b:1",): 0}
    assert "shardpulse_shard_replica_behind_bytes" not in series
    assert series["shardpulse_shard_at_risk"] == {("a:1",): 1, ("b:1",): 0}


def test_filter_workers() -> None:
    lags = [Lag(0, 0.0), Lag(1, 7.5), Lag(2, None, "refused")]
    workers = Workers((Worker("id1", 'w"1', 2.0, 0.5, (0, 1)),), (2,), ())
    series = read(health(lags=lags, workers=workers))
    assert series["shardpulse_filter_workers"] == {(): 1}
    assert series["shardpulse_filter_unowned_partitions"] == {(): 1}
    assert series["shardpulse_filter_waiting_seconds"] == {(): 7.5}
    assert series["shardpulse_partition_waiting_seconds"] == {("0",): 0, ("1",): 7.5}
    assert series["shardpulse_worker_behind_seconds"] == {('w"1', "id1"): 7.5}
    assert series["shardpulse_worker_partitions"] == {('w"1', "id1"): 2}


def test_no_wait_is_known_where_no_partition_can_be_read() -> None:
    assert "shardpulse_filter_waiting_seconds" not in read(health())


def qemu(host: str) -> Entity:
    return Entity(entity_id("vm", "uuid", host), "vm", "uuid", host, "guest")


@pytest.mark.parametrize("entities", [True, False])
def test_a_migrating_vm_counts_once(entities: bool) -> None:
    found = snapshot(*(block(host, "vms", [qemu(host), process(host, 1, "x")], VMS.metrics) for host in ("a", "b")))
    ((host, shadow),) = found.placements.shadows
    text = render(found, options=Options(entities=entities)).decode()
    name = "a" if host == host_id("a") else "b"
    line = f'shardpulse_entity_shadow{{host="{name}",entity="guest",id="{shadow:016x}",vm="uuid"}} 1\n'
    assert (line in text) == entities
    assert text.count("\nshardpulse_entity_shadow") == entities
