"""The hot list of a survey says exactly what judging every host says, whatever lies in the shards."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from acquisition.config.decisions import Decisions
from acquisition.errors import ShardError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.model import codes
from acquisition.model.metric import HOST_SET, resource_set_id
from acquisition.shards.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.wire import commit
from acquisition.wire.commit import Commit
from acquisition.wire.smoothed import HEADER_SIZE
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import Method, method_of
from filters.decisions.overload_detection import REGISTRY
from filters.decisions.picture import CPU
from filters.decisions.verdict import Outcome
from filters.judging.hot_list import hot_list
from filters.judging.newest import Newest
from filters.judging.observe import observe
from filters.judging.sources import TickInputs, host_owners, inputs_of, recent_of
from filters.worker.worker import Worker
from tests.support.data_center import HOST_METRICS, Guest, Machine, run, smooth, smoothing
from tests.support.moving_slot import Move
from tests.support.scene import ALL


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    with smoothing(cluster) as worker:
        yield worker


def everyone(reader: SnapshotReader, method: Method, hot: frozenset[str] = frozenset()) -> Decided:
    """Every host, judged one by one."""
    snapshot = reader.coherent(lambda _, number: number == resource_set_id(HOST_SET))
    return decide(observe(snapshot, Decisions(), inputs_of(reader, snapshot, method.rule)), method, None, hot)


def newest(reader: SnapshotReader, method: Method, hot: frozenset[str]) -> Decided:
    """Every host, judged one by one by its newest sample as the service does."""
    judge = Newest(Decisions(), method)
    judge.take(reader, hot)
    snapshot = reader.coherent(lambda _, number: number == resource_set_id(HOST_SET))
    whole, tables, recent, known = judge.over(reader, snapshot)
    every = {**reader.inputs(snapshot), **tables}
    older = recent_of(reader, host_owners(snapshot, every), method.rule)
    picture = observe(whole, Decisions(), TickInputs(every, {**older, **recent}))
    return decide(picture, method, None, hot, known=known)


def told(decided: Decided) -> dict[str, object]:
    """Everything that a hot list says."""
    verdicts = {host: verdict for host, verdict in decided.heat.verdicts.items() if verdict.outcome != Outcome.NOT_HOT}
    ages = {host.id: (host.name, host.state, host.age_seconds) for host in decided.picture.hosts if host.id in verdicts}
    count = len(decided.picture.hosts) + decided.picture.others
    return {"hot": decided.heat.hot, "count": count} | {host: (ages[host], verdicts[host]) for host in ages}


def center(cluster: Cluster, chance: random.Random) -> list[Machine]:
    """Hosts of every load; some have invalid samples, some send no figures of their own."""
    machines = []
    for number in range(24):
        machine = Machine(cluster, f"h{number}", [Guest(f"v{number}", 1.0, 4)])
        machine.busy = chance.choice([0.1, 0.3, 0.5, 0.5, 0.7, 0.85, 0.9, 0.95, 0.98])
        if number % 8 == 5:
            machine.codes = np.zeros((1, len(HOST_METRICS)), np.uint8)
            machine.codes[0, chance.randrange(len(HOST_METRICS))] = codes.RANGE
        machine.sends_host = number != 7
        machines.append(machine)
    return machines


def look(shards: Shards, tick: int) -> SnapshotReader:
    return SnapshotReader(shards.connect(), clock=lambda: tick + 1.6)


def test_a_hot_list_tells_the_same_as_judging_everyone(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    chance = random.Random(4)
    machines = center(cluster, chance)
    tick = run(worker, machines)
    for machine in machines[4:]:  # the first four are late by one tick
        machine.send(tick + 1.5)
    smooth(worker, machines[4:], tick + 1)
    with look(shards, tick + 1) as reader:
        for name in REGISTRY:
            method = method_of(Decisions(), name)
            some = frozenset(chance.sample([machine.id for machine in machines], 8))
            for hot in (frozenset[str](), some):
                expected = told(everyone(reader, method, hot))
                assert told(hot_list(reader, Decisions(), method, hot)) == expected, name
        method = method_of(Decisions())
        listed = hot_list(reader, Decisions(), method)
        assert listed.picture.others > 8  # so that it was worth it
        assert any(verdict.outcome == Outcome.HOT for verdict in listed.heat.verdicts.values())
        assert listed.picture.tick == tick + 1


def test_each_host_is_judged_by_its_newest_sample(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    chance = random.Random(12)
    machines = center(cluster, chance)
    tick = run(worker, machines, ahead=-60)
    rising, fast = machines[:6], machines[3:16]  # who samples early in the second that has begun
    for after in range(1, 5):
        for machine in rising:
            machine.busy = 0.97
        for machine in machines if after < 4 else fast:
            machine.send(tick + after + 0.1)
        smooth(worker, machines if after < 4 else fast, tick + after)
    due = tick + 3
    for name in REGISTRY:
        method = method_of(Decisions(), name)
        some = frozenset(chance.sample([machine.id for machine in machines], 8))
        for hot in (frozenset[str](), some):
            with look(shards, due) as reader:
                expected = told(newest(reader, method, hot))
                assert told(hot_list(reader, Decisions(), method, hot)) == expected, name
    with look(shards, due) as reader:
        listed = hot_list(reader, Decisions(), method_of(Decisions()))
        assert listed.picture.tick == due
        hot = listed.heat.hot
        assert {machine.id for machine in rising[3:5]} <= hot  # the last four are high
        ages = {host.id: host.age_seconds for host in listed.picture.hosts}
        assert ages[rising[4].id] == pytest.approx(0.5)


@pytest.mark.parametrize(("key", "begin"), [("smoothed:*", 0), ("smoothed:*", HEADER_SIZE), ("applied:*", 0)])
def test_damage_is_seen(key: str, begin: int, shards: Shards, cluster: Cluster, worker: Worker) -> None:
    chance = random.Random(key)
    machines = center(cluster, chance)
    tick = run(worker, machines)
    names = sorted(name for client in cluster.masters() for name in keys_at(cluster, client, key, tick))
    method = method_of(Decisions())
    with look(shards, tick) as reader:
        for _ in range(60):
            damage(cluster, chance.choice(names), begin, chance)
            assert told(hot_list(reader, Decisions(), method)) == told(everyone(reader, method))


def keys_at(cluster: Cluster, address: object, pattern: str, tick: int) -> list[str]:
    connection = cluster.connect(address)  # type: ignore[arg-type]
    try:
        found = [name.decode() for name in connection.call("KEYS", pattern)]
    finally:
        connection.close()
    return [name for name in found if pattern.startswith("applied") or name.endswith(f":{tick % 20}")]


def damage(cluster: Cluster, name: str, begin: int, chance: random.Random) -> None:
    """Change a byte of a value, most of them near to ``begin``, cut it, lengthen it, or take it away; the commit
    is another one, so that readers cannot rely on what they know of its partition."""
    key = f"commit:{name[name.index('{') : name.index('}') + 1]}"
    cluster.call(key, "SET", key, commit.encode(Commit(chance.randbytes(8).hex().encode(), ALL, 0)))
    field = ()
    if name.startswith("applied"):
        field = (chance.choice(cluster.call(name, "HKEYS", name) or [b"?"]),)
    data = cluster.call(name, "HGET" if field else "GET", name, *field) or b""
    kind = chance.randrange(10)
    if kind == 0:
        cluster.call(name, "HDEL" if field else "DEL", name, *field)
        return
    if kind == 1:
        data = data[: chance.randrange(len(data) + 1)]
    elif kind == 2:
        data += bytes(chance.randrange(1, 40))
    elif data:
        near = min(len(data) - 1, begin + chance.randrange(160))
        at = near if chance.random() < 0.5 else chance.randrange(len(data))
        data = data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
    cluster.call(name, "HSET" if field else "SET", name, *field, data)


def test_a_survey_gives_the_figures_of_a_reading(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    tick = run(worker, center(cluster, random.Random(9)))
    with look(shards, tick) as reader:
        survey = reader.survey(HOST_SET)
        column, memory = survey.column(CPU), survey.column("memory_used_ratio")
        seen = everyone(reader, method_of(Decisions())).picture
        assert column.known.sum() > 12
        for host in seen.hosts:
            at = np.flatnonzero(survey.hosts == int(host.id, 16))
            if not len(at) or not column.known[at[0]]:
                continue
            row, reading = int(at[0]), host.readings[CPU]
            assert (column.mean[row], column.stale_seconds[row]) == (reading.mean, reading.stale_seconds)
            assert column.last[row] == reading.last
            assert reading.inputs is not None
            assert column.planes["mad"][row] == reading.inputs.mad
            assert column.planes["above"][row] == reading.inputs.above
            assert column.warming[row] == reading.inputs.warming
            assert memory.mean[row] == host.readings["memory_used_ratio"].mean
        assert not survey.column("no_such_metric").known.any()


def test_nobody_is_there(shards: Shards, cluster: Cluster, worker: Worker) -> None:
    with look(shards, 1000) as reader:
        assert told(hot_list(reader, Decisions(), method_of(Decisions())))["count"] == 0


def test_a_partition_that_moves_and_a_shard_that_dies(start_cluster: Callable[..., Shards]) -> None:
    two, method = start_cluster(2), method_of(Decisions())
    cluster = two.connect()
    machines = center(cluster, random.Random(1))
    with smoothing(cluster) as worker:
        tick = run(worker, machines)
    with look(two, tick) as reader:
        everywhere = told(everyone(reader, method))
        assert told(hot_list(reader, Decisions(), method)) == everywhere
        move = Move(two, read_layout(cluster).tag_of(int(machines[0].id, 16)))
        for name in move.begin():
            move.carry([name])
            assert told(hot_list(reader, Decisions(), method)) == everywhere, name
        move.finish()
        assert told(hot_list(reader, Decisions(), method)) == everywhere
        os.kill(two.shards[0].pid, signal.SIGKILL)
        assert hot_list(reader, Decisions(), method).picture.errors
        assert told(hot_list(reader, Decisions(), method)) == told(everyone(reader, method))
        os.kill(two.shards[1].pid, signal.SIGKILL)
        with pytest.raises(ShardError):
            hot_list(reader, Decisions(), method)
