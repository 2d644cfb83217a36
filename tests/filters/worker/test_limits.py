"""A host that is too large, by mistake or on purpose: what exceeds a limit is rejected with a finding that names the
host, and others notice nothing."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.happenings import MISNAMED
from acquisition.link.layouts import read_layout
from acquisition.model.identity import host_id
from acquisition.model.metric import GAUGE, Metric
from acquisition.shards.servers.launch import Shards
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot.reconcile import books
from acquisition.status import health
from acquisition.status.finding import STALE
from acquisition.wire import keys, table
from acquisition.wire.rejected import Limits
from acquisition.wire.table import Entity, Table
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import events_of, position_of, rejected_of, turn_until
from tests.support.feeder import Feeder
from tests.support.processes import resident, started
from tests.support.serving import Serving
from tests.support.waiting import eventually

HOST = 7
HOSTILE = HOST + keys.DEFAULT_PARTITIONS  # of the same partition
METRIC = Metric("cpu_ratio", "ratio", GAUGE, 0.0, 1.0, "load")
MIB = 1 << 20


def names(entities: int = 1, metrics: int = 1, name: str = "vm") -> bytes:
    columns = tuple(METRIC._replace(name=f"metric_{number}") for number in range(metrics))
    rows = tuple(Entity(number, "vm", f"uuid-{number}", "1", name) for number in range(1, entities + 1))
    return table.encode(Table("mallory", "vms", 1.0, "test", True, columns, rows))


class Bench:
    """A worker with small limits, a host that keeps to them and one that does not."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.layout = cluster, read_layout(cluster)
        settings = FilterSettings(limits=Limits(3, 10, 4, 4000, 300))
        self.worker = lone_worker(cluster, self.layout, settings, [keys.partition_of(HOST, 256)], report=lambda _: None)
        self.victim, self.hostile = Feeder(cluster, HOST), Feeder(cluster, HOSTILE)

    def turn(self, feeder: Feeder) -> None:
        """Until the newest frame of a sender was judged."""
        turn_until(self.worker, lambda: sequence(self.cluster, feeder) == feeder.sequence)

    def send(self, feeder: Feeder, entities: int = 1, metrics: int = 1) -> None:
        feeder.push(feeder.make(np.ones((entities, metrics)), float(feeder.sequence + 1)))

    def reasons(self) -> list[str]:
        return [one.message.partition(" has ")[2] for one in rejected_of(self.cluster, self.hostile.tag)]

    def account(self, host: int) -> books.Account:
        return next(row for row in books.read_books(self.cluster, self.layout) if row.host == host)


def sequence(cluster: Cluster, feeder: Feeder) -> int:
    found = position_of(cluster, feeder.host, feeder.resource_set)
    return 0 if found is None else found.sequence


@pytest.fixture
def bench(cluster: Cluster) -> Iterator[Bench]:
    made = Bench(cluster)
    yield made
    made.worker.close()


def test_frames_beyond_a_limit_are_lost_and_counted(bench: Bench) -> None:
    hostile = bench.hostile
    for entities, metrics in ((2, 2), (11, 1), (1, 5), (10, 4), (2, 2)):
        bench.send(hostile, entities, metrics)
        bench.turn(hostile)
    assert bench.reasons() == [
        "11 entities, the limit is 10 ([filter.limits] entities)",
        "5 metrics, the limit is 4 ([filter.limits] metrics)",
    ]
    account = bench.account(HOSTILE)
    assert (account.applied, account.lost, account.lost_frames, account.faults) == (48, 16, 2, ())
    for payload in (names(11), names(1, 5), names(1, 1, "x" * 301), names(1, 1, '"' * 200), bytes(4000)):
        hostile.push(hostile.table(payload))
        bench.turn(hostile)
    assert [text.partition(",")[0] for text in bench.reasons()[2:]] == [
        "names of 11 entities", "5 metrics", "a name of 301 bytes", "a name of 400 bytes", "a frame of 4096 bytes",
    ]  # fmt: skip
    bench.send(hostile, 2, 2)
    bench.turn(hostile)
    assert bench.account(HOSTILE).applied == 52


def test_a_host_by_the_name_of_another_is_an_event(bench: Bench) -> None:
    for _ in range(3):  # once a minute
        bench.hostile.push(bench.hostile.table(names()))
        bench.turn(bench.hostile)
    own = Feeder(bench.cluster, host_id("mallory"))
    (told,) = events_of(bench.cluster, bench.layout.tags, MISNAMED)
    assert (told.host, told.details) == (HOSTILE, {"reason": "claims the name 'mallory' of another host"})
    partition = keys.partition_of(own.host, bench.layout.partitions)
    with contextlib.closing(lone_worker(bench.cluster, bench.layout, FilterSettings(), [partition])) as one:
        own.push(own.table(names()))
        turn_until(one, lambda: sequence(bench.cluster, own) == own.sequence)
    assert len(events_of(bench.cluster, bench.layout.tags, MISNAMED)) == 1


def test_a_host_has_so_many_sets_and_so_many_entities_in_all(bench: Bench) -> None:
    sets = [Feeder(bench.cluster, HOSTILE, number) for number in range(1, 6)]
    for feeder in sets:
        bench.send(feeder, 4)
    turn_until(bench.worker, lambda: len(bench.reasons()) == 3)
    assert [text.partition(",")[0] for text in bench.reasons()] == [
        "12 entities", "one more resource set (00000004)", "one more resource set (00000005)",
    ]  # fmt: skip
    bench.send(bench.victim, 10)
    bench.turn(bench.victim)
    bench.send(sets[0])  # who shrinks makes room
    bench.turn(sets[0])
    bench.send(sets[2], 4)
    bench.turn(sets[2])
    assert len(bench.reasons()) == 3


def test_limits_hold_for_a_filter_that_takes_over(bench: Bench) -> None:
    for number in (1, 2, 3):
        feeder = Feeder(bench.cluster, HOSTILE, number)
        bench.send(feeder, 3)
        bench.turn(feeder)
    bench.worker.close()
    again = Bench(bench.cluster)
    again.send(Feeder(bench.cluster, HOSTILE, 4))
    feeder.push(feeder.make(np.ones((5, 1)), 2.0))
    again.turn(feeder)
    assert [text.partition(",")[0] for text in again.reasons()] == ["one more resource set (00000004)", "11 entities"]
    again.worker.close()


def test_names_of_what_has_gone_do_not_count(bench: Bench) -> None:
    for first in range(0, 40, 8):
        rows = tuple(Entity(first + number, "vm", "u", "1", "vm") for number in range(8))
        payload = table.encode(Table("churn", "vms", 1.0, "test", False, (METRIC,), rows))
        bench.hostile.push(bench.hostile.table(payload))
        bench.turn(bench.hostile)
    assert bench.reasons() == []
    data = bench.cluster.call(key := keys.names(bench.hostile.tag, HOSTILE, 3), "GET", key)
    assert len(table.decode(data).entities) <= 10


class Attacked:
    """A filter and a service as processes, and a host of the partition that is attacked."""

    def __init__(self, cluster: Cluster, shards: Shards, directory: Path, stack: ExitStack) -> None:
        command = [sys.executable, "-m", "acquisition", "filter", "--shards", str(shards.addresses[0])]
        self.cluster, self.layout = cluster, read_layout(cluster)
        self._filter = stack.enter_context(started(command, stderr=subprocess.DEVNULL))
        self._service = stack.enter_context(Serving(directory, shards.addresses))
        self.victim = Feeder(cluster, HOST)

    def answers(self) -> bool:
        """Whether the newest frame of the victim was applied and the service works."""
        self.victim.push(self.victim.make(np.ones((1, 1)), float(self.victim.sequence + 1)))
        eventually(lambda: sequence(self.cluster, self.victim) == self.victim.sequence)
        return self._service.ask("/v1/hosts").status == 200

    def attack(self) -> None:
        """10,000 sets, a frame of a million entities, huge names, 100,000 metrics; until all of it was judged."""
        rejected = books.read(self.cluster, self.layout).rejected
        feeders = [Feeder(self.cluster, HOSTILE, number) for number in range(10_000)]
        raw = keys.raw(self.victim.tag)
        for first in range(0, len(feeders), 1000):
            some = [feeder.make(np.ones((1, 2)), 1.0) for feeder in feeders[first : first + 1000]]
            self.cluster.gather([(raw, ("XADD", raw, "*", "f", data)) for data in some])
        known = feeders[0]
        known.epoch = 12 + rejected
        known.sequence = known.made = 0
        known.push(known.make(np.ones((1_000_000, 1)), 2.0))
        for payload in (names(1, 1, "x" * MIB), names(1, 100_000), names(20_000)):
            known.push(known.table(payload))
        expected = rejected + len(feeders) - Limits().resource_sets + 4
        eventually(lambda: books.read(self.cluster, self.layout).rejected >= expected)

    def memory(self) -> tuple[float, float]:
        """MiB of filter and service."""
        return resident(self._filter.pid) / MIB, resident(self._service.process.pid) / MIB


def flat(before: tuple[float, float], after: tuple[float, float]) -> bool:
    """Whether an attack left less behind, in MiB, than one of its frames of a million entities, which has 8."""
    return all(now < then + 3 for then, now in zip(before, after, strict=True))


@pytest.mark.slow
def test_filter_and_service_stay_flat_under_attack(cluster: Cluster, shards: Shards, tmp_path: Path) -> None:
    with ExitStack() as stack:
        attacked = Attacked(cluster, shards, tmp_path, stack)
        eventually(attacked.answers)
        attacked.attack()  # buffers keep the size of the largest reply, which may come later: so it is one flat attack
        memory = [attacked.memory()]
        while len(memory) < 3 or not flat(*memory[-2:]):
            assert len(memory) < 10, memory
            attacked.attack()
            eventually(attacked.answers)
            memory.append(attacked.memory())
        members = stack.enter_context(Members(shards.addresses))
        found = {row.about: row for row in health.read(cluster, members, {}).findings}
    finding = found[f"host {HOSTILE:016x}"]
    assert (finding.kind, finding.text.partition(":")[0]) == (STALE, "some of its frames are rejected")
    assert "[filter.limits]" in finding.text
    account = next(row for row in books.read_books(cluster, read_layout(cluster)) if row.host == HOST)
    assert (account.lost, account.applied, account.faults) == (0, attacked.victim.made, ())
