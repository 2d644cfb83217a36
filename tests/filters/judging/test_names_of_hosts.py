"""A host that calls itself by the name of another: what it is called, and on whom reports are booked."""

from __future__ import annotations

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model.identity import host_id
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.reconcile import books
from acquisition.status.finding import of_hosts
from filters.decisions.migrations import Migrations
from filters.service.interface.reporting import MigrationReport, host_names, report_of
from tests.support.data_center import Guest, Machine, run, smoothing
from tests.support.waiting import eventually


def test_a_name_belongs_to_its_host_whoever_comes_first(shards: Shards, cluster: Cluster) -> None:
    web, calm = Machine(cluster, "web-0", [Guest("a", 2.0, 4)]), Machine(cluster, "calm", [Guest("d", 2.0, 8)])
    evil = Machine(cluster, "evil", [Guest("x", 1.0, 1)])
    evil.name = "web-0"  # its id, by which it may write, stays its own
    own, web_id = f"{host_id('evil'):016x}", f"{host_id('web-0'):016x}"
    with smoothing(cluster) as worker:
        run(worker, [calm], ahead=-1)
        evil.send_tables(0.5)
        tick = run(worker, [calm, web], ticks=2)
        with SnapshotReader(shards.connect(), clock=lambda: tick + 1.6) as reader:
            eventually(lambda: own in host_names(reader.coherent()), meanwhile=lambda: worker.turn(0.02))
            snapshot = reader.coherent()
    assert host_names(snapshot) == {web_id: "web-0", f"{host_id('calm'):016x}": "calm", own: own}
    rows = [entity for block in snapshot.blocks if block.host_id == host_id("evil") for entity in block.entities]
    assert {row.name for row in rows if row.kind == "host"} == {own}
    said = MigrationReport("uuid-a", "web-0", "calm", "started")
    assert report_of(said, snapshot, ("vm",), Migrations)[:3] == ("uuid-a", web_id, f"{host_id('calm'):016x}")
    found = books.read(cluster, read_layout(cluster))
    about = {
        each.about for each in of_hosts(found.accounts, found.statuses, 0.0, 10.0) if "name of another" in each.text
    }
    assert about == {f"host {own}"}


def test_before_its_owner_is_seen_a_name_is_nobodys(shards: Shards, cluster: Cluster) -> None:
    calm, evil = Machine(cluster, "calm", [Guest("d", 2.0, 8)]), Machine(cluster, "evil", [Guest("x", 1.0, 1)])
    evil.name = "web-0"
    with smoothing(cluster) as worker:
        evil.send_tables(0.5)
        tick = run(worker, [calm], ticks=2)
        with SnapshotReader(shards.connect(), clock=lambda: tick + 1.6) as reader:
            assert "web-0" not in host_names(reader.coherent()).values()
