"""Decision inputs through real shards: what readers get, what a worker that takes over goes on with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model import codes
from acquisition.model.inputs import Span
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.snapshot import SnapshotReader
from acquisition.wire import keys
from acquisition.wire.records import inputs as wire
from acquisition.wire.records import recent, smoothed
from filters.worker.inputs.plan import InputsSettings
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.feeder import Feeder
from tests.support.inputs_bench import METRICS, SCHEMA, VMS, Bench, names
from tests.support.series import applied_sequence
from tests.support.waiting import eventually

WINDOW, COUNTED = 6, 3
INPUTS = Bench(WINDOW, COUNTED).inputs
NEXT_VERSIONS = (smoothed.VERSION + 1, recent.VERSION + 1)  #: a newer filter's record is left alone: no damage


def members(tick: int) -> list[int]:
    """Entities come, go, come back and change places."""
    return [[1, 2, 3], [1, 2, 3], [3, 1, 2, 4], [1, 2, 4], [2, 1, 3, 4]][tick // 4 % 5]


def samples(tick: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(tick)
    rows = len(members(tick))
    values = rng.random((rows, len(METRICS))).astype(np.float32)
    marks = np.where(rng.random(values.shape) < 0.2, codes.RANGE, 0).astype(np.uint8)
    return values, marks


class Plant:
    """Workers that are turned by hand, one at a time; every frame is fed to an uninterrupted bench as well."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.feeder = Feeder(cluster, resource_set=VMS)
        self.bench = Bench(WINDOW, COUNTED)
        self.said: list[str] = []
        self.worker = self.start()
        self.feeder.push(self.feeder.table(names()))

    def start(self) -> Worker:
        settings = FilterSettings(inputs=INPUTS)
        self.worker = lone_worker(self.cluster, read_layout(self.cluster), settings, report=self.said.append)
        return self.worker

    def replace(self) -> None:
        self.worker.close()
        self.start()

    def tick(self, tick: int, missing: int = 0) -> None:
        values, marks = samples(tick)
        self.feeder.push(self.feeder.make(values, float(tick), codes=marks, ids=members(tick), schema=SCHEMA))
        self.bench.feed(self.bench.item(self.feeder.host, float(tick), members(tick), values, marks, missing=missing))

    def settle(self) -> None:
        """Until everything that was pushed is applied."""
        self.until(lambda: self.applied() == self.feeder.sequence)

    def until(self, done: Callable[[], bool]) -> None:
        eventually(done, meanwhile=lambda: self.worker.turn(0.05), says=lambda: self.said)

    def applied(self) -> int:
        return applied_sequence(self.cluster, self.feeder)

    def key(self, tick: int) -> str:
        return keys.smoothed(self.feeder.tag, self.feeder.host, VMS, (1_000_000 + tick) % keys.DEFAULT_KEEP_TICKS)

    @property
    def recent(self) -> str:
        return keys.recent(self.feeder.tag, self.feeder.host, VMS)

    def record(self, tick: int) -> bytes:
        return self.cluster.call(self.key(tick), "GET", self.key(tick))

    def section(self, tick: int) -> wire.Section:
        data = self.record(tick)
        head = smoothed.check(data)
        return wire.decode(smoothed.section(data, head), head.entities)

    def ring(self) -> recent.Ring:
        return recent.decode(self.cluster.call(self.recent, "GET", self.recent))

    def assert_equals_bench(self, tick: int) -> None:
        record, found = smoothed.decode(self.record(tick)), self.section(tick)
        state = self.bench.states[self.feeder.host].inputs
        assert state is not None
        assert record.tick == 1_000_000 + tick
        assert record.ids.tobytes() == state.ids
        expected = state.arrays()
        for name in ("seen", "since", "figures", "counts", "derived", "codes"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


@pytest.fixture
def plant(cluster: Cluster) -> Iterator[Plant]:
    plant = Plant(cluster)
    yield plant
    plant.worker.close()


def test_a_worker_that_takes_over_goes_on_bit_by_bit(plant: Plant) -> None:
    for tick in range(1, 40):
        plant.tick(tick)
        if tick % 5 == 0:
            plant.settle()
            plant.replace()
    plant.settle()
    plant.assert_equals_bench(39)
    assert plant.said == []


def test_a_full_shard_gets_the_inputs_by_its_script(plant: Plant) -> None:
    plant.settle()
    for channel in plant.worker._channels.values():
        channel._full_until = float("inf")
    for tick in range(1, 14):
        plant.tick(tick)
        if tick % 4 == 0:
            plant.settle()
    plant.settle()
    plant.assert_equals_bench(13)
    plant.replace()
    plant.tick(14)
    plant.settle()
    plant.assert_equals_bench(14)
    assert plant.said == []


def test_a_gap_before_a_takeover_leaves_no_old_values_in_the_windows(plant: Plant) -> None:
    for tick in (1, 2, 3, 4, 5, 6, 7):
        plant.tick(tick)
    plant.tick(11, missing=3)
    plant.settle()
    plant.replace()
    for tick in (12, 13):
        plant.tick(tick)
    plant.settle()
    plant.assert_equals_bench(13)


def test_readers_get_the_figures_and_the_recent_values_of_a_tick(plant: Plant) -> None:
    for tick in range(1, 31):
        plant.tick(tick)
    plant.settle()
    reader = SnapshotReader(plant.cluster)
    snapshot = reader.latest()
    owner = (plant.feeder.host, VMS)
    found = reader.inputs(snapshot)[owner]
    assert found.metrics == ("cpu_ratio", "cpu_other_ratio")
    row = found.ids.tolist().index(4)
    got, expected = found.inputs(row, "cpu_ratio"), plant.bench.expected(plant.feeder.host, 4, 1)
    assert got is not None
    assert (got.window, got.counted, got.threshold) == (WINDOW, COUNTED, 0.5)
    assert (got.valid, got.counted_valid, got.above) == (expected["valid"], expected["counted"], expected["above"])
    for name in ("median", "mad", "q1", "q3", "cusum"):
        assert getattr(got, name) == pytest.approx(expected[name], rel=1e-4, abs=1e-5)
    assert got.time_above_seconds == pytest.approx(expected["time_above"])
    assert got.warming == (expected["seen"] < WINDOW)
    assert found.inputs(row, "first") is None
    series = reader.recent([owner])[owner].series(3, "cpu_other_ratio")
    present = [tick for tick in range(1, 31) if 3 in members(tick)]
    assert [one.tick - 1_000_000 for one in series] == present
    for one, tick in zip(series, present, strict=True):
        values, marks = samples(tick)
        at = members(tick).index(3)
        assert one.code == marks[at, 3]
        assert one.raw == (pytest.approx(float(values[at, 3])) if one.code == codes.VALID else None)


def test_only_the_last_120_ticks_stay_readable(plant: Plant) -> None:
    for tick in range(1, 131):
        plant.tick(tick)
    plant.settle()
    reader, owner = SnapshotReader(plant.cluster), (plant.feeder.host, VMS)
    table = reader.recent([owner])[owner]
    assert [one.tick - 1_000_000 for one in table.series(1, "cpu_ratio")] == list(range(11, 131))
    assert 0 < plant.cluster.call(plant.recent, "TTL", plant.recent) <= 751
    assert 0 < plant.cluster.call(plant.key(130), "TTL", plant.key(130)) <= 600


def test_slots_keep_owners_and_full_ring_grows(plant: Plant) -> None:
    """Twelve entities, of which ten leave and others come: raw values of all who were there stay readable."""
    values = np.zeros((12, len(METRICS)))
    crowds = [list(range(1, 13)), [1, 2, *range(21, 36)], [*range(21, 36), 1, 2], [1, 2, 3]]
    for at, crowd in enumerate(crowds, 1):
        values = np.full((len(crowd), len(METRICS)), float(at))
        values[:, 1] += np.array(crowd) / 100
        plant.feeder.push(plant.feeder.make(values, float(at), ids=crowd, schema=SCHEMA))
    plant.settle()
    ring = plant.ring()
    assert ring.head.capacity == 12 + 15
    slots = {int(slot["id"]): place for place, slot in enumerate(ring.slots) if slot["id"]}
    assert set(slots) == {*range(1, 13), *range(21, 36)}
    assert [int(ring.slots["first"][slots[entity]]) for entity in (1, 12, 21, 35)] == [1, 1, 2, 2]
    for at, place in enumerate(ring.order(), 1):
        row = ring.rows[place]
        marks = recent.codes_of(row["raw"], row["outliers"])
        for entity, slot in slots.items():
            if entity in crowds[at - 1]:
                assert marks[0, slot] == codes.VALID
                assert row["raw"][0, slot] == pytest.approx(at + entity / 100)
            else:
                assert marks[0, slot] == recent.GONE
    plant.replace()
    plant.feeder.push(plant.feeder.make(np.ones((1, len(METRICS))), 5.0, ids=[12], schema=SCHEMA))
    plant.settle()
    assert plant.ring().slots.tolist() == ring.slots.tolist()  # who comes back finds the slot again
    assert plant.said == []


@pytest.mark.parametrize("full", [False, True])
def test_a_ring_that_grows_in_its_shard_holds_what_it_held(plant: Plant, full: bool) -> None:
    plant.settle()
    for at in range(1, 40):
        values = np.random.default_rng(at).random((3, len(METRICS)))
        plant.feeder.push(plant.feeder.make(values, float(at), ids=[1, 2, 3], schema=SCHEMA))
    plant.settle()
    before = plant.ring()
    for channel in plant.worker._channels.values():
        channel._full_until = float("inf") if full else 0.0
    crowd = list(range(1, 20))
    values = np.random.default_rng(0).random((len(crowd), len(METRICS)))
    plant.feeder.push(plant.feeder.make(values, 40.0, ids=crowd, schema=SCHEMA))
    plant.settle()
    after = plant.ring()
    assert (before.head.capacity, after.head.capacity) == (4, 19)
    assert after.head._replace(capacity=4) == before.head
    assert after.names == before.names
    np.testing.assert_array_equal(after.taus, before.taus)
    np.testing.assert_array_equal(after.slots[:3], before.slots[:3])
    np.testing.assert_array_equal(after.seed_steps, before.seed_steps)
    np.testing.assert_array_equal(after.seed_means[:, :, :4], before.seed_means)
    assert np.isnan(after.seed_means[:, :, 4:][after.seed_steps > 0]).all()
    for place in before.order():
        old, new = before.rows[place], after.rows[place]
        assert [new[name] for name in ("step", "life", "wall", "monotonic")] == [
            old[name] for name in ("step", "life", "wall", "monotonic")
        ]
        assert new["raw"][:, :4].tobytes() == old["raw"].tobytes()
        marks = recent.codes_of(new["raw"], new["outliers"])
        np.testing.assert_array_equal(marks[:, :4], recent.codes_of(old["raw"], old["outliers"]))
        assert (marks[:, 4:] == recent.GONE).all()
    assert plant.cluster.call(plant.recent, "TTL", plant.recent) > 600
    newest = after.rows[after.order()[-1]]
    places = [after.slots["id"].tolist().index(entity) for entity in crowd]
    np.testing.assert_array_equal(newest["raw"][0, places], values[:, 1].astype(np.float32))


@pytest.mark.parametrize("loss", ["record", "garbage", "recent", "foreign"])
def test_what_is_lost_starts_anew_and_says_since_when(plant: Plant, loss: str) -> None:
    for tick in range(1, 13):
        plant.tick(tick)
    plant.settle()
    plant.worker.close()
    if loss == "record":
        plant.cluster.call(plant.key(12), "DEL", plant.key(12))
    elif loss == "garbage":
        plant.cluster.call(plant.key(12), "SET", plant.key(12), spoilt(plant.record(12), 96, 255))
    else:
        plant.cluster.call(plant.recent, "DEL", plant.recent)
    if loss == "foreign":
        plant.cluster.call(plant.recent, "RPUSH", plant.recent, "somebody's")
    plant.start()
    plant.tick(13)
    plant.settle()
    found = plant.section(13)
    windows_lost = loss in ("recent", "foreign")
    assert found.tally("valid").max() <= 1
    assert (found.seen == 1).all() == (not windows_lost)  # of windows whose values were lost, the age is still known
    assert (found.since == 1_000_013.0).all() == (not windows_lost)
    assert (loss == "garbage") == any("damaged" in text for text in plant.said)
    plant.tick(14)
    plant.settle()
    reader, owner = SnapshotReader(plant.cluster), (plant.feeder.host, VMS)
    assert len(reader.recent([owner])[owner]) == 2


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2000), st.integers(0, 255).filter(lambda value: value not in NEXT_VERSIONS), st.booleans())
def test_whatever_lies_in_the_shard_the_worker_goes_on(plant: Plant, at: int, value: int, in_ring: bool) -> None:
    first = int(plant.bench.states[7].newest) + 1 if plant.bench.states else 1
    for tick in (first, first + 1):
        plant.tick(tick)
    plant.settle()
    plant.worker.close()
    key = plant.recent if in_ring else plant.key(first + 1)
    data = plant.cluster.call(key, "GET", key)
    plant.cluster.call(key, "SET", key, spoilt(data, at, value))
    plant.start()
    plant.tick(first + 2)
    plant.settle()
    assert plant.section(first + 2).tally("valid").max() <= WINDOW


def spoilt(data: bytes, at: int, value: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes((value,)) * 8 + data[at + 8 :]


def test_other_columns_begin_with_their_table(plant: Plant) -> None:
    for tick in range(1, 5):
        plant.tick(tick)
    feeder = plant.feeder
    columns = (Metric("cpu_ratio", "cores", "counter", 0.0, 8.0, ""),)
    values = np.full((1, 1), 0.7)
    # before its table has come, nobody knows what a column means
    feeder.push(feeder.make(values, 5.0, ids=[1], schema=schema_hash(columns)))
    plant.settle()
    feeder.push(feeder.table(names(columns)))
    feeder.push(feeder.make(values, 6.0, ids=[1], schema=schema_hash(columns)))
    plant.settle()
    assert plant.section(6).names == ("cpu_ratio",)
    assert plant.section(6).seen.tolist() == [1]
    assert smoothed.check(plant.record(5)).inputs_size == 0
    assert plant.ring().names == ("cpu_ratio",)


def test_derived_metrics_of_a_host(cluster: Cluster) -> None:
    columns = tuple(Metric(name, "ratio", "counter", 0.0, 1.0, "") for name in ("cpu_iowait_ratio", "cpu_idle_ratio"))
    feeder = Feeder(cluster, resource_set=resource_set_id("host"))
    settings = FilterSettings(inputs=InputsSettings(counted=Span(5.0, 4)))
    worker = lone_worker(cluster, read_layout(cluster), settings, report=lambda _text: None)
    feeder.push(feeder.table(names(columns, "host")))
    for tick in range(1, 7):
        marks = [[0, codes.STUCK if tick == 6 else 0]]
        values = np.array([[0.0, 0.045 + tick / 100]])
        feeder.push(feeder.make(values, float(tick), ids=[1], codes=marks, schema=schema_hash(columns)))
    reader, owner = SnapshotReader(cluster), (feeder.host, feeder.resource_set)
    eventually(lambda: worker.counters["frames"] == 6, meanwhile=lambda: worker.turn(0.05))
    eventually(
        lambda: [block.tick for block in reader.latest().blocks] == [1_000_006], meanwhile=lambda: worker.turn(0.05)
    )
    table_of = reader.inputs(reader.latest())[owner]
    assert table_of.metrics == ("cpu_busy_ratio",)
    found, reading = table_of.inputs(0, "cpu_busy_ratio"), table_of.derived(0, "cpu_busy_ratio")
    assert found is not None
    assert reading is not None
    assert (found.valid, found.counted, found.counted_valid, found.above, found.warming) == (5, 5, 4, 4, True)
    assert found.median == pytest.approx(0.925)
    assert (found.plateau, found.lowest, found.highest) == (4, pytest.approx(0.905), pytest.approx(0.935))
    assert (reading.code, reading.stale_seconds) == (codes.STUCK, 1.0)
    assert reading.mean is not None
    assert 0.9 < reading.mean < 0.94
    assert reading.last == pytest.approx(0.895)
    worker.close()
    other = lone_worker(cluster, read_layout(cluster), settings, report=lambda _text: None)
    feeder.push(feeder.make(np.array([[0.0, 0.5]]), 7.0, ids=[1], codes=None, schema=schema_hash(columns)))
    eventually(
        lambda: [block.tick for block in reader.latest().blocks] == [1_000_007], meanwhile=lambda: other.turn(0.05)
    )
    found = reader.inputs(reader.latest())[owner].inputs(0, "cpu_busy_ratio")
    assert found is not None
    assert found.bursts is not None  # one that began before the takeover and ended after it
    assert (found.bursts.open_seconds, found.bursts.total, found.bursts.longest_seconds) == (0.0, 1, 5.0)
    assert found.bursts.height == pytest.approx(0.945)
    other.close()
