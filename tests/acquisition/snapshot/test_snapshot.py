"""Snapshots from real shards: coherent or saying that they are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acquisition.errors import ConfigError, ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import write_layout
from acquisition.model import codes, ticks
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id, schema_hash
from acquisition.model.ticks import coherent_tick
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.values.block import Block, Quality
from acquisition.snapshot.values.states import CURRENT, DOWN, LATE, SILENCE, STATES, UNKNOWN
from acquisition.wire import keys
from acquisition.wire.position import SHEDS, Position
from acquisition.wire.records import smoothed
from tests.support import layouts
from tests.support.scene import METRICS, Scene, entities, record

NOW = 1_000_000.75  # tick 999_999 is complete, with a grace of half a second
TICK = 999_999


class Clock:
    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def scene(cluster: Cluster) -> Scene:
    return Scene(cluster)


@pytest.fixture
def reader(shards: Shards, cluster: Cluster, clock: Clock) -> Iterator[SnapshotReader]:
    with SnapshotReader(shards.connect(), clock=clock) as reader:
        yield reader


def block(snapshot: Snapshot, host: str, resource_set: str = "processes") -> Block:
    (found,) = (b for b in snapshot.blocks if (b.host, b.resource_set) == (host, resource_set))
    return found


def test_a_slow_reading_says_when_it_chose_its_tick(shards: Shards, scene: Scene) -> None:
    times = iter([NOW, NOW + 1.0, NOW + 2.0, NOW + 3.0])
    scene.host("web-1", [TICK])
    with SnapshotReader(shards.connect(), clock=lambda: next(times)) as reader:
        snapshot = reader.coherent()
    assert block(snapshot, "web-1").tick == TICK == coherent_tick(snapshot.began, 1.0, 0.5)
    assert snapshot.now > snapshot.began  # ages count to the end of the reading


def test_rows_say_everything(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK - 1, TICK, TICK + 1], exceptions=[(1, codes.RANGE, 2.5)])
    rows = list(reader.coherent().rows())
    assert [(row.entity, row.metric, row.validity) for row in rows] == [
        ("init", "cpu_ratio", "VALID"),
        ("init", "memory_resident_bytes", "RANGE"),
        ("web server", "cpu_ratio", "VALID"),
        ("web server", "memory_resident_bytes", "VALID"),
    ]
    row = rows[1]
    assert (row.host, row.resource_set, row.kind, row.stable, row.epoch) == (
        "web1",
        "processes",
        "process",
        "web1:1",
        "1",
    )
    assert (row.unit, row.tick, row.interval, row.state, row.reason) == ("bytes", TICK, 1.0, CURRENT, "")
    assert (row.mean, row.last, row.deviation, row.trend) == (1000.0, 1001.0, 2.0, 0.5)
    assert row.age_seconds == pytest.approx(NOW - (TICK + 0.5))
    assert row.stale_seconds == 2.5
    assert row.id == f"{entities('web1', ['init'])[0].id:016x}"


def test_latest_gives_each_row_its_own_newest_tick(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("fast", [TICK, TICK + 1])
    scene.host("slow", [TICK - 2, TICK - 1])
    snapshot = reader.latest()
    fast, slow = block(snapshot, "fast"), block(snapshot, "slow")
    assert (fast.tick, fast.state, fast.age_seconds) == (TICK + 1, CURRENT, pytest.approx(0.25))
    assert (slow.tick, slow.state, slow.age_seconds) == (TICK - 1, LATE, pytest.approx(2.25))
    assert slow.has_values
    assert slow.reason == f"1 behind tick {TICK}"


def test_coherent_is_one_tick_and_late_hosts_have_no_values(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("fast", [TICK - 1, TICK, TICK + 1])
    scene.host("exact", [TICK])
    scene.host("slow", [TICK - 2, TICK - 1])
    snapshot = reader.coherent()
    assert {b.tick for b in snapshot.blocks if b.state == CURRENT} == {TICK}
    assert [b.host for b in snapshot.late] == ["slow"]
    rows = list(snapshot.rows(host="slow"))
    assert [row.entity for row in rows] == ["init", "init", "web server", "web server"]
    for row in rows:
        assert (row.mean, row.last, row.deviation, row.trend, row.stale_seconds) == (None,) * 5
        assert (row.state, row.validity, row.tick) == (LATE, "LATE", TICK - 1)
        assert row.age_seconds == pytest.approx(2.25 - 0.0)
    table = snapshot.matrix("processes", "cpu_ratio")
    missing = np.array([host == "slow" for host in table.hosts])
    assert np.isnan(table.mean[missing]).all()
    assert not np.isnan(table.mean[~missing]).any()
    assert (table.codes[missing] == codes.LATE).all()
    assert [STATES[i] for i in table.state[missing]] == [LATE, LATE]


def test_a_host_becomes_current_when_its_tick_comes(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK - 1])
    assert block(reader.coherent(), "web1").state == LATE
    scene.host("web1", [TICK])
    assert block(reader.coherent(), "web1").state == CURRENT


def test_silence_becomes_down(scene: Scene, reader: SnapshotReader, clock: Clock) -> None:
    scene.host("gone", [TICK])
    scene.host("half", [TICK])
    scene.host("half", [TICK + 9], resource_set="host", names=["half"])
    clock.now = NOW + 8.0
    assert {b.host: b.state for b in reader.coherent().blocks if b.resource_set == "processes"} == {
        "gone": LATE,
        "half": LATE,
    }
    clock.now = NOW + 11.0
    snapshot = reader.coherent()
    assert block(snapshot, "gone").state == DOWN
    assert block(snapshot, "half").state == LATE, "the host still sends another resource set"
    assert block(reader.latest(), "gone").state == DOWN
    assert block(reader.latest(), "gone").has_values


def test_a_long_interval_is_current_until_its_next_tick_plus_grace(
    scene: Scene, reader: SnapshotReader, clock: Clock
) -> None:
    scene.host("web1", [TICK // 60], resource_set="disks", interval=60.0)
    end = (TICK // 60 + 1) * 60.0
    for now, state in (
        (end + 0.6, CURRENT),
        (end + 60.4, CURRENT),
        (end + 60.6, LATE),
        (end + 80.0, LATE),
        (end + 121.0, UNKNOWN),
    ):
        clock.now = now
        found = block(reader.coherent(), "web1", "disks")
        assert (found.state, found.interval) == (state, 60.0), now


def test_an_interval_that_float32_cannot_hold(scene: Scene, reader: SnapshotReader) -> None:
    tick = math.floor((NOW - 0.1) / 0.1) - 1  # the grace is cut to what is kept
    scene.host("web1", [tick - 1, tick, tick + 1], interval=0.1)
    found = block(reader.coherent(), "web1")
    assert (found.state, found.tick, found.interval) == (CURRENT, tick, 0.1)


def test_a_clock_that_steps_back_an_hour(scene: Scene, reader: SnapshotReader) -> None:
    """Newest is what the position says, not the greatest tick; the host is late, not down and not idle."""
    scene.host("web1", [TICK - 1, TICK, TICK + 1])
    back = TICK - 3600
    wall = back + 0.5
    rows = scene.host("web1", [back], lag=3600.0)
    latest = block(reader.latest(), "web1")
    assert (latest.tick, latest.age_seconds) == (back, NOW - wall)
    assert latest.state == LATE
    scene.host("web1", [back + 1, back + 2], lag=3600.0)
    found = block(reader.coherent(), "web1")
    assert found.state == LATE
    assert "arrive 3600.0 s late" in found.reason
    assert len(found.entities) == len(rows)


def test_a_clock_that_is_ahead(scene: Scene, reader: SnapshotReader, clock: Clock) -> None:
    """A dead host's record must not become current when its wrong tick comes."""
    scene.host("ahead", [TICK], lag=-100.0)
    found = block(reader.coherent(), "ahead")
    assert (found.state, found.cause) == (UNKNOWN, SILENCE)
    assert found.delay == "the host's clock is 100.0 s ahead"
    assert block(reader.latest(), "ahead").age_seconds == pytest.approx(NOW - (TICK + 0.5) + 100.0)


def test_running_host_whose_clock_is_an_hour_ahead_is_told_so(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("other", [TICK])
    scene.host("ahead", [TICK + 3600 - 2, TICK + 3600 - 1, TICK + 3600], lag=-3600.0)
    found = block(reader.coherent(), "ahead")
    assert (found.state, found.delay) == (LATE, "the host's clock is 3600.0 s ahead")


def test_a_stale_record_in_the_slot_is_not_taken(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK - 3], epoch=5)  # the same slot
    scene.host("other", [TICK], epoch=4)
    scene.position("other", "processes", Position(9, 1, TICK, TICK + 0.5, 1.0))
    snapshot = reader.coherent()
    assert block(snapshot, "web1").state == LATE
    assert block(snapshot, "other").reason == f"tick {TICK} is of an older epoch"
    scene.host("skipped", [TICK - 1, TICK + 1])
    assert block(reader.coherent(), "skipped").reason.endswith(f"missed or expired; the newest is {TICK + 1}")


def test_a_record_committed_between_the_reads_is_newer_and_taken(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK])
    number, set_number = host_id("web1"), resource_set_id("processes")
    ids = [row.id for row in entities("web1", ["init", "web server"])]
    newer = record(number, set_number, ids, np.ones((2, 2)), TICK + 3, sequence=99)
    scene.record("web1", "processes", newer, TICK)
    assert block(reader.latest(), "web1").tick == TICK + 3


def test_a_position_without_samples(scene: Scene, reader: SnapshotReader) -> None:
    scene.position("new", "processes", Position(9, 1, 0, 0.0, 0.0))
    scene.names("new", "processes", entities("new", ["init"]))
    found = block(reader.coherent(), "new")
    assert (found.state, found.reason) == (LATE, "no samples yet")
    assert next(reader.coherent().rows()).age_seconds is None


def test_an_expired_record_leaves_the_names(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK])
    key = scene.record_key("web1", "processes", TICK)
    scene.put(key, "DEL", key)
    rows = list(reader.coherent().rows())
    assert {row.entity for row in rows} == {"init", "web server"}
    assert rows[0].reason == f"tick {TICK} has expired"


def test_unknown_names_are_shown_as_numbers(scene: Scene, reader: SnapshotReader) -> None:
    number, set_number = host_id("anon"), resource_set_id("processes")
    scene.record("anon", "processes", record(number, set_number, [0xABC, 0xDEF], np.ones((2, 2)), TICK), TICK)
    scene.position("anon", "processes", Position(5, 1, TICK, TICK + 0.5, 1.0))
    rows = list(reader.coherent().rows())
    assert len(rows) == 4
    assert (rows[0].host, rows[0].resource_set) == (f"{number:016x}", f"{set_number:08x}")
    assert rows[0].entity == f"{0xABC:016x}"
    assert rows[1].metric == f"{schema_hash(METRICS):08x}#1"
    assert len(list(reader.coherent().rows(host=f"{number:016x}", entity=f"{0xABC:016x}"))) == 2
    scene.names("anon", "processes", entities("anon", ["init"]))  # some names come: others stay numbers
    rows = list(reader.coherent().rows())
    assert (rows[0].host, rows[0].entity, rows[0].metric) == ("anon", f"{0xABC:016x}", "cpu_ratio")


def test_new_and_vanished_entities(scene: Scene, reader: SnapshotReader, clock: Clock) -> None:
    scene.host("web1", [TICK], names=["a", "b"])
    assert [row.entity for row in reader.coherent().rows(metric="cpu_ratio")] == ["a", "b"]
    scene.host("web1", [TICK + 1], names=["a", "c", "d"])
    clock.now += 1
    snapshot = reader.coherent()
    assert next(snapshot.rows(metric="cpu_ratio")).entity == "a"
    assert len(snapshot.matrix("processes", "cpu_ratio").ids) == 3


def test_names_are_read_only_when_something_is_unknown(scene: Scene, reader: SnapshotReader, clock: Clock) -> None:
    scene.host("web1", [TICK])
    reader.coherent()
    key = keys.names(scene.tag(host_id("web1")), host_id("web1"), resource_set_id("processes"))
    scene.put(key, "DEL", key)
    assert next(reader.coherent().rows()).entity == "init"
    scene.names("web1", "processes", [e._replace(name="renamed") for e in entities("web1", ["init", "web server"])])
    assert next(reader.coherent().rows()).entity == "init"
    clock.now += 120.0
    assert next(reader.latest().rows()).entity == "renamed", "names are renewed now and then"


def test_a_host_that_the_filter_forgot_is_gone(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK - 600])
    scene.host("web2", [TICK])
    reader.coherent()
    key = keys.applied(scene.tag(host_id("web1")))
    scene.put(key, "HDEL", key, keys.member(host_id("web1"), resource_set_id("processes")))
    assert [b.host for b in reader.coherent().blocks] == ["web2"]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "short": lambda data: data[:50],
    "magic": lambda data: b"XXXX" + data[4:],
    "version": lambda data: data[:4] + b"\x63" + data[5:],
    "shape": lambda data: data[:-1],
}


@pytest.mark.parametrize("reason", DAMAGE)
def test_a_damaged_record_is_counted_and_hides_nothing_else(reason: str, scene: Scene, reader: SnapshotReader) -> None:
    scene.host("good", [TICK])
    scene.host("bad", [TICK])
    key = scene.record_key("bad", "processes", TICK)
    data = scene.cluster.call(key, "GET", key)
    scene.put(key, "SET", key, DAMAGE[reason](data))
    for snapshot in (reader.coherent(), reader.latest()):
        found = block(snapshot, "bad")
        assert (snapshot.damaged, found.state, found.damage, found.has_values) == (1, LATE, reason, False)
        assert found.reason.startswith("unreadable record: ")
        assert {row.entity for row in snapshot.rows(host="bad")} == {"init", "web server"}
        assert block(snapshot, "good").state == CURRENT


def test_a_record_of_another_host_is_damage(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("one", [TICK])
    key = scene.record_key("one", "processes", TICK)
    stolen = record(host_id("two"), resource_set_id("processes"), [1], np.ones((1, 2)), TICK)
    scene.put(key, "SET", key, stolen)
    assert block(reader.coherent(), "one").damage == "shape"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_of_any_key_is_survived(data: st.DataObject, scene: Scene, reader: SnapshotReader) -> None:
    scene.host("good", [TICK])
    scene.host("bad", [TICK], exceptions=[(1, 3, 1.0)])
    key = scene.record_key("bad", "processes", TICK)
    value = bytearray(scene.cluster.call(key, "GET", key))
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    scene.put(key, "SET", key, bytes(value[: data.draw(st.integers(0, len(value)))]))
    for snapshot in (reader.coherent(), reader.latest()):
        list(snapshot.rows())
        snapshot.matrix("processes", "cpu_ratio")
        assert block(snapshot, "good").state == CURRENT
        assert {b.host for b in snapshot.blocks} == {"good", "bad"}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_of_a_position_is_survived(data: st.DataObject, scene: Scene, reader: SnapshotReader) -> None:
    scene.host("good", [TICK])
    scene.host("bad", [TICK])
    newest = Position(
        data.draw(st.sampled_from([5, 6])),
        data.draw(st.integers(0, 2**64 - 1)),
        data.draw(st.integers(-(2**63), 2**63 - 1)),
        data.draw(st.floats()),
        data.draw(st.floats(width=32)),
    )
    scene.position("bad", "processes", newest)
    for snapshot in (reader.coherent(), reader.latest()):
        list(snapshot.rows())
        snapshot.matrix("processes", "cpu_ratio")
        assert block(snapshot, "good").state == CURRENT
        assert {b.host for b in snapshot.blocks} == {"good", "bad"}


def test_damaged_positions_and_names(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("good", [TICK])
    scene.host("bad", [TICK])
    key = keys.applied(scene.tag(host_id("bad")))
    scene.put(key, "HSET", key, keys.member(host_id("bad"), resource_set_id("processes")), b"nonsense")
    scene.put(key, "HSET", key, b"\xffnonsense", b"nonsense")
    names = keys.names(scene.tag(host_id("bad")), host_id("bad"), resource_set_id("processes"))
    scene.put(names, "SET", names, b'{"host":')
    snapshot = reader.coherent()
    found = next(b for b in snapshot.blocks if b.host_id == host_id("bad"))
    assert (found.state, found.damage) == (LATE, "payload")
    assert "position record" in found.reason
    assert any("expected HOST:SET" in error for error in snapshot.errors)
    assert any("invalid table" in error for error in snapshot.errors)
    assert [row.entity for row in snapshot.rows(host=f"{host_id('bad'):016x}")] == ["?"]
    assert block(snapshot, "good").state == CURRENT


def test_a_key_of_the_wrong_type_hides_nothing_else(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("good", [TICK])
    reader.coherent()
    tag = scene.tag(host_id("good") + 1)
    scene.put(keys.applied(tag), "SET", keys.applied(tag), "a string")
    snapshot = reader.coherent()
    assert block(snapshot, "good").state == CURRENT
    assert any("WRONGTYPE" in error for error in snapshot.errors)


def test_more_entities_than_a_head_holds(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK - 1], names=[f"p{i}" for i in range(3000)])
    found = block(reader.coherent(), "web1")
    assert (found.state, found.shape) == (LATE, (3000, 2))
    assert found.entities[2999].name == "p2999"


def test_matrix_and_rows_agree(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK], exceptions=[(0, codes.STUCK, 2.0)])
    scene.host("web2", [TICK], names=["init", "db", "cron"])
    snapshot = reader.coherent()
    table = snapshot.matrix("processes", "cpu_ratio")
    rows = list(snapshot.rows(resource_set="processes", metric="cpu_ratio"))
    assert table.hosts == [row.host for row in rows]
    assert table.entities == [row.entity for row in rows]
    assert table.mean.tolist() == [row.mean for row in rows]
    assert table.last.tolist() == [row.last for row in rows]
    assert np.sqrt(table.variance).tolist() == [row.deviation for row in rows]
    assert table.stale.tolist() == [row.stale_seconds for row in rows]
    assert [codes.name_of(code) for code in table.codes] == [row.validity for row in rows]
    assert [f"{i:016x}" for i in table.ids.tolist()] == [row.id for row in rows]
    assert table.tick.tolist() == [TICK] * 5
    chosen = snapshot.matrix("processes", "cpu_ratio", host="web2", entity=["d*", "cron"])
    assert chosen.entities == ["db", "cron"]
    assert snapshot.matrix("processes", "no such metric").mean.shape == (0,)


def test_average_is_shown_until_last_valid_value_is_too_old(scene: Scene, reader: SnapshotReader) -> None:
    ages = (2.9, 3.1, 300.0, float("nan"))
    scene.host("web1", [TICK], exceptions=[(place, codes.MISSING, age) for place, age in enumerate(ages)])
    slow = ticks.coherent_tick(NOW, 10.0, 0.5)
    scene.host("slow", [slow], interval=10.0, exceptions=[(0, codes.MISSING, 29.0), (1, codes.MISSING, 31.0)])
    snapshot = reader.coherent()
    rows = {(row.host, row.entity, row.metric): row for row in snapshot.rows()}
    for host, shown in (("web1", [True, False, False, False]), ("slow", [True, False, True, True])):
        found = [row for (name, *_), row in rows.items() if name == host]
        for figure in ("mean", "deviation", "trend"):
            assert [getattr(row, figure) is not None for row in found] == shown, (host, figure)
        assert all(row.last is not None for row in found)
    gone = rows["web1", "web server", "cpu_ratio"]
    assert (gone.validity, gone.stale_seconds) == ("MISSING", 300.0)
    table = snapshot.matrix("processes", "cpu_ratio", host="web1")
    assert np.isnan(table.mean).tolist() == np.isnan(table.variance).tolist() == [False, True]
    state = block(snapshot, "web1").plane("mean")  # to go on from, whatever is shown
    assert np.isfinite(state).all()


def test_planes_that_the_filter_does_not_keep(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK])
    ids = [row.id for row in entities("web1", ["init", "web server"])]
    data = record(host_id("web1"), resource_set_id("processes"), ids, np.ones((2, 2)), TICK, planes=["mean"])
    scene.record("web1", "processes", data, TICK)
    row = next(reader.coherent().rows())
    assert (row.mean, row.last, row.deviation, row.trend) == (1.0, None, None, None)


def test_totals(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK - 1, TICK])
    scene.host("web2", [TICK])
    totals = reader.coherent().totals
    assert (totals.applied, totals.lost) == (8 + 4, 0)


def test_losses_and_shedding_reach_the_reader_with_the_position(scene: Scene, reader: SnapshotReader) -> None:
    scene.host("web1", [TICK - 1, TICK])
    scene.host("web2", [TICK])
    lossy = Position(5, 2, TICK, TICK + 0.5, 1.0, SHEDS, applied=6, lost=2, made=8, lost_tick=TICK - 7, gaps=3)
    scene.position("web1", "processes", lossy)
    snapshot = reader.latest()
    first, second = (block.quality for block in snapshot.blocks)
    assert first == Quality(0.75, 2, 7.0, True, 3)
    assert second == Quality(1.0, 0, None, False, 0)
    totals = snapshot.totals
    assert (totals.lost, totals.gaps, totals.shedding, totals.lossy) == (2, 3, 1, 1)
    assert {(row.host, row.lost_seconds, row.sheds) for row in snapshot.rows()} == {
        ("web1", 7.0, True),
        ("web2", None, False),
    }
    assert Quality.of(None) == Quality(None, 0, None, False, 0)
    assert Quality.of(Position(1, 0, 0, 0.0, 1.0)).coverage is None


def test_without_layout_and_without_data(shards: Shards, cluster: Cluster) -> None:
    with SnapshotReader(shards.connect()) as reader:
        assert reader.coherent().blocks == ()
        assert reader.coherent().matrix("host", "cpu").mean.size == 0
    layouts.forget(cluster)
    with SnapshotReader(shards.connect()) as reader, pytest.raises(ConfigError, match="shards up"):
        reader.coherent()


def test_the_number_of_kept_ticks_comes_from_the_shards(shards: Shards, cluster: Cluster, clock: Clock) -> None:
    layouts.forget(cluster)
    write_layout(cluster, keys.DEFAULT_PARTITIONS, keep_ticks=7)
    Scene(cluster, keep_ticks=7).host("web1", list(range(TICK - 4, TICK + 2)))
    with SnapshotReader(shards.connect(), clock=clock) as reader:
        assert block(reader.coherent(), "web1").state == CURRENT


def test_no_shard_at_all(unused_port: int) -> None:
    with (
        SnapshotReader.connect([f"127.0.0.1:{unused_port}"]) as reader,
        pytest.raises(ShardError, match="no shard answers"),
    ):
        reader.coherent()


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_head_and_check_agree_with_decode() -> None:
    data = record(1, 2, [3, 4], np.ones((2, 2)), 7, exceptions=[(3, 1, 1.0)])
    head = smoothed.check(data)
    assert (head.size, head.entities, head.metrics, head.tick) == (len(data), 2, 2, 7)
    assert smoothed.unpack_head(data[:100]) == head
    assert smoothed.decode(data).tick == 7
