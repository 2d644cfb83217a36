"""A hot list that is asked for often reads each newest record once, and says what it says to one who has just come."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from acquisition.config.decisions import Decisions
from acquisition.link.batch import Batch
from acquisition.link.cluster import Cluster
from acquisition.model.metric import HOST_SET, resource_set_id
from acquisition.shards.launch import Shards
from acquisition.snapshot import SnapshotReader
from filters.decisions.deciding import Decided
from filters.decisions.method import method_of
from filters.decisions.overload_detection import REGISTRY
from filters.decisions.picture import CURRENT, Host
from filters.decisions.verdict import Verdict
from filters.judging.hot_list import hot_list
from filters.judging.last_verdicts import LastVerdicts
from filters.worker.worker import Worker
from tests.filters.judging.test_hot_list import center, newest, told
from tests.support.data_center import run, smooth, smoothing

SET = f":{resource_set_id(HOST_SET):08x}:"


class Asked(Cluster):
    """A cluster that counts the records of hosts that it asks for."""

    records = 0

    def ask(self, batch: Batch) -> list[Any]:
        commands = [words for _, words in batch.commands if words[0] == "MGET"]
        self.records += sum(SET in str(word) for words in commands for word in words[1:])
        return super().ask(batch)

    def ask_raw(self, batch: Batch) -> list[memoryview] | None:
        commands = [words for _, words in batch.commands if isinstance(words, bytes)]
        self.records += sum(words.count(SET.encode()) for words in commands)
        return super().ask_raw(batch)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    with smoothing(cluster) as worker:
        yield worker


def test_who_asks_often_reads_what_has_come(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    chance = random.Random(5)
    machines = center(cluster, chance)
    tick = run(worker, machines, ahead=-60)
    method, asked, clock = method_of(Decisions()), Asked(shards.addresses), Clock()
    with SnapshotReader(asked, clock=clock) as often:
        for step in range(1, 5):
            for part in range(4):  # they sample at different phases
                some = machines[part::4]
                for machine in some:
                    machine.busy = chance.choice([0.2, 0.97, machine.busy])
                    machine.send(tick + step + 0.1 + part / 8)
                smooth(worker, some, tick + step)
                clock.now = tick + step + 0.25 + part / 4
                asked.records = 0
                listed = told(hot_list(often, Decisions(), method))
                if clock.now % 1.0 < 0.5 and step > 1:  # everybody is ahead of what is due
                    # none, once the filter tells what commits change (test_following.py)
                    assert asked.records in (0, sum(machine.sends_host for machine in some))
                with SnapshotReader(shards.connect(), clock=clock) as new:
                    assert listed == told(newest(new, method, frozenset()))


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_who_has_not_moved_is_not_judged_again(shards: Shards, cluster: Cluster, worker: Worker, name: str) -> None:
    chance = random.Random(8)
    machines = center(cluster, chance)
    tick = run(worker, machines, ahead=-60)
    judged: list[str] = []
    known = method_of(Decisions(rule=name))

    def judge(host: Host, parameters: Any, was_hot: bool) -> Verdict:
        judged.append(host.id)
        return known.rule.judge(host, parameters, was_hot)

    method, clock, last = known._replace(rule=known.rule._replace(judge=judge)), Clock(), LastVerdicts()
    hot = earlier = frozenset[str]()
    with SnapshotReader(shards.connect(), clock=clock) as reader:
        for step in range(1, 9):
            some = [machine for machine in machines if machine.sends_host][step % 4 :: 4]
            for machine in some:
                machine.busy = chance.choice([0.2, 0.97, machine.busy])
                machine.send(tick + step // 4 + 1.1)
            smooth(worker, some, tick + step // 4 + 1)
            clock.now = tick + step // 4 + 1.25 + step % 4 / 8
            judged.clear()
            found = hot_list(reader, Decisions(), method, hot, last)
            again, before = set(judged), hot
            hot = found.heat.hot
            assert told(found) == told(hot_list(reader, Decisions(), method, before)), step
            if step > 1 and not known.rule.history:
                changed = {machine.id for machine in some} | (before ^ earlier)
                assert again <= changed | {host for host in again if _is_late(found, host)}
            earlier = before


def test_of_current_hosts_nothing_else_is_looked_at(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machines = center(cluster, random.Random(9))
    tick = run(worker, machines, ahead=-60)
    clock = Clock()
    clock.now = tick + 1.6
    with SnapshotReader(shards.connect(), clock=clock) as reader:
        survey = reader.survey(HOST_SET, newest=True)
        snapshot, tables = reader.details(survey, np.ones(len(survey.hosts), np.bool_))
        assert {f"{block.host_id:016x}" for block in snapshot.unread} == {
            machine.id for machine in machines if not machine.sends_host
        }
        assert tables.keys() == reader.inputs(snapshot).keys()
        clock.now += 3.0  # now all are late
        survey = reader.survey(HOST_SET, newest=True)
        snapshot, tables = reader.details(survey, np.ones(len(survey.hosts), np.bool_))
        assert {f"{block.host_id:016x}" for block in snapshot.unread} == {machine.id for machine in machines}
        assert not tables


def _is_late(decided: Decided, host: str) -> bool:
    return any(each.id == host and each.state != CURRENT for each in decided.picture.hosts)


def test_hosts_that_come_and_go_are_found(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    machines = center(cluster, random.Random(6))
    tick = run(worker, machines, ahead=-60)
    method, clock = method_of(Decisions()), Clock()
    with SnapshotReader(shards.connect(), clock=clock) as often:
        for step in range(1, 6):
            some = machines[: len(machines) - step] if step < 3 else machines
            for machine in some:
                machine.send(tick + step + 0.1)
            smooth(worker, some, tick + step)
            for part in range(3):
                clock.now = tick + step + 0.3 + part / 4
                with SnapshotReader(shards.connect(), clock=clock) as new:
                    assert told(hot_list(often, Decisions(), method)) == told(newest(new, method, frozenset()))
