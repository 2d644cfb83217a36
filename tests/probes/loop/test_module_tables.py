"""Which names a monitor module sends, and when: rows that readers still see stay named, and none left is said."""

from __future__ import annotations

from array import array

import numpy as np

from acquisition.model.identity import entity_id
from acquisition.model.metric import ResourceSet
from acquisition.wire.frame import Samples
from acquisition.wire.table import Entity, Table
from probes.checks import build_pipeline
from probes.loop.module import TABLE_SECONDS, Module
from probes.metrics import VMS
from probes.sampling.reading import Reading
from probes.sampling.schedule import Schedule
from probes.sources import Polled

CPU = VMS.select(("cpu_ratio",))
START = 1_792_000_000.0


class Given(Polled):
    """A source whose VMs the test starts and ends."""

    name = "given"

    def __init__(self, resource_set: ResourceSet) -> None:
        self.resource_set = resource_set
        self.entities: list[Entity] = []
        self.differs = False

    def glance(self) -> bool:
        return self.differs

    def sample(self, wall: float, monotonic: float) -> Reading:
        count = len(self.entities)
        return Reading(
            self.resource_set, list(self.entities), array("d", [0.5]) * count, bytearray(count), wall, monotonic, 1.0
        )


class Sink:
    """What was offered, by tick."""

    def __init__(self) -> None:
        self.frames: list[list[int]] = []
        self.tables: list[tuple[bool, list[str]]] = []
        self.doubt = False

    def offer(self, samples: Samples) -> int:
        self.frames.append(np.frombuffer(samples.ids, "<u8").tolist())
        assert len(self.frames[-1]) == samples.entities
        return 0

    def offer_table(self, names: Table, _tick: int, _wall: float, _monotonic: float) -> int:
        self.tables.append((names.complete, [entity.stable for entity in names.entities]))
        return 0

    def wants_table(self, _set: int) -> bool:
        return self.doubt


def vm(uuid: str) -> Entity:
    return Entity(entity_id("vm", uuid, "1"), "vm", uuid, "1", uuid)


class Bench:
    def __init__(self, interval: float = 1.0) -> None:
        self.source, self.sink, self.tick = Given(CPU), Sink(), 0
        self.labels: dict[str, dict[str, str]] = {}
        schedule = Schedule(interval, 0.0, START, 0.0)
        self.module = Module(CPU, self.source, build_pipeline(CPU), schedule, "a", self.sink)

    def run(self, *uuids: str, seconds: int = 1) -> list[tuple[bool, list[str]]]:
        """The tables of the next seconds with these VMs."""
        self.source.entities = [vm(uuid)._replace(labels=self.labels.get(uuid, {})) for uuid in uuids]
        del self.sink.tables[:]
        for _ in range(seconds):
            self.tick += 1
            self.module.run(int(START) + self.tick, START + self.tick, float(self.tick))
        return list(self.sink.tables)


def test_a_complete_table_names_what_has_just_gone_too() -> None:
    bench = Bench()
    assert bench.run("u", "v") == [(True, ["u", "v"])]
    assert bench.run("u", "v", "w") == [(False, ["w"])]
    bench.sink.doubt = True  # the shard came back empty: rows of the kept ticks are sent again, and read
    assert bench.run("u") == [(True, ["u", "v", "w"])]
    assert bench.run("u", seconds=6)[-1] == (True, ["u"])  # there may be two readings in a tick
    bench.sink.doubt = False
    assert bench.run("u", seconds=100) == []


def test_names_of_those_that_have_gone_leave_the_table_after_a_while() -> None:
    bench = Bench()
    bench.run("u", "v")
    tables = bench.run("u", seconds=int(3 * TABLE_SECONDS))
    assert tables == [(True, ["u"])]
    bench.run("u", "x", seconds=int(TABLE_SECONDS))
    bench.run("u", "x", "y")
    later = bench.run("u", seconds=int(3 * TABLE_SECONDS))
    assert later[-1] == (True, ["u"])
    assert len(later) <= 2


def test_host_without_vms_keeps_reporting_that_it_has_none() -> None:
    bench = Bench()
    assert bench.run(seconds=3) == []
    assert bench.sink.frames == []  # a host without VMs says nothing of VMs
    bench.run("u", seconds=2)
    tables = bench.run(seconds=int(3 * TABLE_SECONDS))
    assert bench.sink.frames[2:] == [[]] * int(3 * TABLE_SECONDS)
    assert tables == [(True, [])]
    assert bench.run("u") == [(True, ["u"])]


def test_row_whose_labels_change_is_named_again() -> None:
    bench = Bench()
    bench.labels["u"] = {"incoming": "yes"}
    bench.run("u", "v")
    bench.labels.clear()
    assert bench.run("u", "v", seconds=3) == [(False, ["u"])]


def test_row_that_comes_between_two_ticks_is_read_at_once() -> None:
    bench = Bench()
    bench.run("u")
    bench.source.entities = [vm("u"), vm("v")]
    assert not bench.module.glance(START + 1.5, 1.5)
    bench.source.differs = True
    assert bench.module.glance(START + 1.5, 1.5)
    assert bench.sink.tables[-1] == (False, ["v"])
    assert bench.sink.frames == [[vm("u").id], [vm("u").id, vm("v").id]]


def test_set_that_is_read_rarely_names_its_rows_each_time() -> None:
    """The filter has forgotten them by then ([filter] expire_seconds)."""
    assert Bench(86400.0).run("u", seconds=3) == [(True, ["u"])] * 3
