"""Hot hosts are made and judged when somebody looks, and are then what they were when they were listed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from acquisition.config.decisions import Decisions
from acquisition.link.cluster import Cluster
from acquisition.shards.launch import Shards
from acquisition.snapshot import SnapshotReader
from filters.decisions.method import Method, method_of
from filters.decisions.picture import Host
from filters.decisions.verdict import Outcome, Verdict
from filters.judging.hot_list import hot_list
from filters.judging.last_verdicts import LastVerdicts
from filters.judging.ready_hot_list import ReadyHotList
from filters.worker.worker import Worker
from tests.filters.judging.test_hot_list import center, told
from tests.support.data_center import Machine, run, smooth, smoothing


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    with smoothing(cluster) as worker:
        yield worker


def counting(judged: list[str]) -> Method:
    known = method_of(Decisions())

    def judge(host: Host, parameters: Any, was_hot: bool) -> Verdict:
        judged.append(host.id)
        return known.rule.judge(host, parameters, was_hot)

    return known._replace(rule=known.rule._replace(judge=judge))


def sample(worker: Worker, machines: list[Machine], chance: random.Random, tick: int) -> None:
    for machine in machines:
        machine.busy = chance.choice([0.2, 0.97, machine.busy, machine.busy])
        machine.send(tick + 0.1)
    smooth(worker, machines, tick)


def test_what_is_looked_at_later_is_what_was_listed(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    chance, clock, last, judged = random.Random(11), Clock(), LastVerdicts(), list[str]()
    machines = center(cluster, chance)
    tick, method, hot, later, kept = run(worker, machines, ahead=-60), counting(judged), frozenset[str](), 0, []
    with SnapshotReader(shards.connect(), clock=clock) as often:
        for step in range(1, 8):
            sample(worker, machines, chance, tick + step)
            clock.now = tick + step + 0.3
            with SnapshotReader(shards.connect(), clock=clock) as new:
                expected = told(hot_list(new, Decisions(), method, hot))
            judged.clear()
            found = hot_list(often, Decisions(), method, hot, last)
            hosts = found.heat.having(Outcome.HOT)
            later += len(set(hosts) - set(judged))
            kept.append((found, expected, hosts))
            hot = found.heat.hot
        assert later > 8
        for found, expected, hosts in kept:  # long after
            assert told(found) == expected
            assert hosts == sorted(hosts, key=lambda host: (-(found.heat.verdicts[host].excess or 0.0), host))
            assert [host.id for host in found.picture.hosts] == list(found.heat.verdicts)
            assert {host: each.outcome for host, each in found.heat.outcomes.items()} == {
                host: each.outcome for host, each in found.heat.verdicts.items()
            }


def test_one_reason_makes_one_host(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    clock, judged = Clock(), list[str]()
    machines = center(cluster, random.Random(3))
    tick = run(worker, machines, ahead=-60)
    clock.now = tick + 0.9
    with SnapshotReader(shards.connect(), clock=clock) as reader:
        hot_list(reader, Decisions(), counting(judged))  # names are known from now on
        judged.clear()
        found = hot_list(reader, Decisions(), counting(judged))
        hot = found.heat.having(Outcome.HOT)
        assert isinstance(found.heat.hot, frozenset)
        assert len(hot) > 2
        assert not {*hot} & {*judged}
        judged.clear()
        assert found.heat.verdicts[hot[0]].reason
        assert found.heat.verdicts[hot[0]].reason
        assert judged == [hot[0]]


def test_who_asks_beside_a_thread_that_lists_ahead_gets_what_a_new_reader_gets(
    shards: Shards, cluster: Cluster, worker: Worker
) -> None:
    chance, clock, method = random.Random(5), Clock(), method_of(Decisions())
    machines = center(cluster, chance)
    tick = run(worker, machines, ahead=-60)
    clock.now = tick + 0.3
    with (
        SnapshotReader(shards.connect(), clock=clock) as reader,
        ReadyHotList(reader, Decisions(), method, every=0.001) as ready,
    ):
        for step in range(1, 8):
            sample(worker, machines, chance, tick + step)
            clock.now = tick + step + 0.3
            ready.ask()
            hot = ready.ask().heat.hot
            found = ready.ask()
            with SnapshotReader(shards.connect(), clock=clock) as new:
                assert told(found) == told(hot_list(new, Decisions(), method, hot)), step
