"""Forgotten is not calm: who has no host is blind and says why, and a host leaves the roster only on purpose."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from acquisition.cli import main as shardpulse
from acquisition.hosts import forgetting
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout, restore_layout
from acquisition.model.identity import host_id
from acquisition.model.metric import HOST_SET, resource_set_id, schema_hash
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.visibility import roster
from acquisition.wire import keys, seen
from acquisition.wire.seen import Seen
from acquisition.wire.table import Entity, Table
from filters.prometheus.scrape import BLIND
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.dormant_positions import DormantPositions
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import sequence_of, turn_until
from tests.support.emptied import flush
from tests.support.feeder import Feeder
from tests.support.scene import METRICS

Capture = pytest.CaptureFixture[str]
SET = resource_set_id(HOST_SET)


class Site:
    """Hosts that send by hand, and a filter that lets them expire within a second."""

    def __init__(self, cluster: Cluster, shards: Shards) -> None:
        self.cluster, self.shards, self.layout = cluster, shards, read_layout(cluster)
        self.feeders: dict[str, Feeder] = {}
        self.start()

    def start(self) -> None:
        """A filter that knows what the shards hold."""
        settings = FilterSettings(expire_seconds=1.0)
        partitions = list(range(self.layout.partitions))
        self.worker = lone_worker(self.cluster, self.layout, settings, partitions, report=lambda _: None)

    def restart(self) -> None:
        self.worker.close()
        self.start()

    def send(self, name: str) -> None:
        """A table at first, then a tick of one host, and wait until it is applied."""
        feeder, now = self.feeders.get(name), time.time()
        if feeder is None:
            feeder = self.feeders[name] = Feeder(self.cluster, host_id(name), SET)
            entity = Entity(1, "host", name, "boot", name)
            feeder.push_table(Table(name, HOST_SET, 1.0, "test", True, METRICS, (entity,)), now, now)
        values = np.zeros((1, len(METRICS)))
        feeder.push(feeder.make(values, now, wall=now, schema=schema_hash(METRICS), floor=feeder.sequence + 1))
        turn_until(self.worker, lambda: self.is_applied(feeder))

    def is_applied(self, feeder: Feeder) -> bool:
        return sequence_of(self.cluster, feeder.host, SET) == feeder.sequence

    def expire(self, *names: str) -> None:
        """Turn the filter until these hosts have expired."""
        turn_until(self.worker, lambda: not any(sequence_of(self.cluster, host_id(name), SET) for name in names))

    def turn(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        turn_until(self.worker, lambda: time.monotonic() > end)

    def read(self) -> list[Snapshot]:
        with SnapshotReader(self.shards.connect()) as reader:
            return [reader.coherent(), reader.latest(), reader.newest()]

    def roster(self) -> list[str]:
        return [one.name for one in roster.read(self.cluster, self.layout, time.time()).gone]

    def ask(self, *words: str) -> int:
        return shardpulse([*words, "--shards", ",".join(map(str, self.shards.addresses))])


@pytest.fixture
def site(cluster: Cluster, shards: Shards) -> Iterator[Site]:
    made = Site(cluster, shards)
    yield made
    made.worker.close()


def test_all_expired_is_blind_in_every_answer(site: Site, capsys: Capture) -> None:
    for name in ("web-1", "web-2"):
        site.send(name)
    last = roster.moment(time.time())[:-4]
    site.expire("web-1", "web-2")
    for snapshot in site.read():
        assert snapshot.blind.startswith(f"no host is visible since {last}"), snapshot.blind
        assert "2 known hosts expired" in snapshot.blind
        assert snapshot.blind in snapshot.errors
    place = ["query", "place", "--vcpus", "1", "--memory", "1GiB"]
    for words in (["query"], ["query", "hot"], ["query", "moves"], place, ["top", "--once"]):
        assert site.ask(*words) == 75
        assert "2 known hosts expired" in capsys.readouterr().err
    for words in (["query", "hot"], ["query", "moves"], place, ["top"], ["query"], ["status"]):
        assert site.ask(*words, "--json") == 75
        found = json.loads(capsys.readouterr().out)
        assert "2 known hosts expired" in found["blind"]
        lists = [found.get(name) for name in ("hot", "moves", "refused", "maintenance", "places")]
        assert lists == [None] * 5
    assert found["verdict"] == "blind"  # the last was status
    assert site.ask("status") == 75
    out = capsys.readouterr().out
    assert "pipeline BLIND" in out
    assert "no host is visible since" in out
    assert site.ask("metrics", "--classic") == 75
    assert f"{BLIND.name} 1" in capsys.readouterr().out


def test_nobody_ever_seen_is_blind(site: Site) -> None:
    for snapshot in site.read():
        assert "no samples yet, or all hosts were forgotten" in snapshot.blind


def test_filter_that_starts_again_remembers_who_has_expired(site: Site) -> None:
    site.send("web-1")
    site.expire("web-1")
    site.restart()
    site.turn(1.5)
    assert "(web-1)" in site.read()[0].blind
    site.send("web-1")
    assert not site.roster()


def test_shards_that_come_back_empty_are_told_who_was_there(site: Site, shards: Shards) -> None:
    for name in ("web-1", "web-2"):
        site.send(name)
    with closing(shards.connect()) as cluster:
        flush(cluster, shards.addresses)
        restore_layout(cluster, site.layout)
    turn_until(site.worker, lambda: len(site.roster()) == 2)
    assert "since the shards came back empty at" in site.read()[0].blind
    site.send("web-1")
    assert site.roster() == ["web-2"]


def test_one_that_expires_beside_others_is_named_by_status(site: Site, capsys: Capture) -> None:
    site.send("web-1")
    site.expire("web-1")
    site.send("web-2")
    assert not site.read()[1].blind
    site.ask("status", "--json")
    (told,) = [each for each in json.loads(capsys.readouterr().out)["findings"] if each["about"] == "hosts"]
    assert (told["kind"], "(web-1)" in told["text"]) == ("note", True)
    site.ask("hosts", "--json")
    listed = {one["id"]: (one["name"], one["state"]) for one in json.loads(capsys.readouterr().out)}
    web_2 = f"{host_id('web-2'):016x}"  # no probe has written its account
    assert listed == {f"{host_id('web-1'):016x}": ("web-1", "expired"), web_2: (web_2, "sends")}


def test_forgotten_on_purpose_leaves_nothing_blind(site: Site, capsys: Capture) -> None:
    """While its filter runs: that has its state in memory, and does not write it again."""
    for name in ("web-1", "web-2"):
        site.send(name)
    assert site.ask("hosts", "forget", "web-1") == 75
    assert "stop its probe first" in capsys.readouterr().err
    assert site.ask("hosts", "forget", "web-3") == 65
    site.expire("web-1")
    assert site.ask("hosts", "forget", "web-1") == 0
    assert "forgot web-1" in capsys.readouterr().out
    site.send("web-2")
    site.turn(1.5)
    site.restart()
    assert "web-1" not in site.roster()


def test_forgotten_while_it_is_there_is_gone_at_once(site: Site) -> None:
    site.send("web-1")
    site.send("web-2")
    feeder = site.feeders["web-1"]
    applied = keys.applied(feeder.tag)
    with closing(site.shards.connect()) as cluster:
        forgetting.forget(cluster, site.layout, feeder.host)
    assert not sequence_of(site.cluster, feeder.host, SET)
    site.send("web-2")
    site.turn(1.5)
    assert not site.cluster.call(applied, "HEXISTS", applied, keys.member(feeder.host, SET))
    assert site.roster() == ["web-2"]
    site.send("web-1")
    assert sequence_of(site.cluster, feeder.host, SET) == feeder.sequence


def test_reader_does_not_miss_a_forgotten_host(site: Site) -> None:
    """Only what its shard has lost is missed for a minute."""
    with SnapshotReader(site.shards.connect()) as reader:
        site.send("web-1")
        site.send("web-2")
        assert {block.host for block in reader.latest().blocks} == {"web-1", "web-2"}
        forgetting.forget(site.cluster, site.layout, host_id("web-1"))
        found = reader.latest()
        assert ({block.host for block in found.blocks}, found.errors) == ({"web-2"}, ())


def test_names_are_bounded_and_old_ones_go() -> None:
    dormant, now = DormantPositions("0.1", 1), time.time()
    dormant.miss([Seen(number, f"web-{number}", now - number) for number in range(seen.MOST + 10)], now)
    assert len(dormant.roster) == seen.MOST + 1
    dormant.miss([Seen(1 << 40, "old", now - seen.KEPT_SECONDS - 1.0)], now)
    assert b"%016x" % (1 << 40) not in dormant.roster
    assert dormant.miss([], now) == []
