"""Every host is judged by its newest sample as soon as that has come; who is late or down is said by the tick."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from acquisition.config.decisions import Decisions
from acquisition.link.cluster import Cluster
from acquisition.model.metric import HOST_SET, resource_set_id
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from filters.decisions.deciding import Decided
from filters.decisions.method import method_of
from filters.decisions.overload_detection import REGISTRY
from filters.decisions.verdict import Outcome
from filters.judging.judge import TickJudge
from filters.worker.loop.worker import Worker
from tests.support.data_center import Guest, Machine, run, smooth, smoothing

STEPPED = 4  #: samples that a plateau takes
OWN = resource_set_id(HOST_SET)


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    with smoothing(cluster) as worker:
        yield worker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """Two hosts, a judge that reads them, and its clock."""

    def __init__(self, shards: Shards, cluster: Cluster, worker: Worker, rule: str = "threshold") -> None:
        self.machines = [Machine(cluster, name, [Guest(f"{name}-vm", 1.0, 4)]) for name in ("rising", "calm")]
        self.worker, self.clock = worker, Clock()
        self.reader = SnapshotReader(shards.connect(), clock=self.clock)
        self.tick = run(worker, self.machines, ahead=-60)  # so that no tick of a test is of the future
        self.judge = self.another(rule)

    def another(self, rule: str = "threshold") -> TickJudge:
        return TickJudge(Decisions(), method_of(Decisions(), rule))

    def at(self, second: float) -> None:
        """The clock of readers, from the beginning of the newest tick of all."""
        self.clock.now = self.tick + second

    def send(self, machines: Sequence[Machine], ticks: int) -> None:
        """The next ticks of these hosts, in the middle of each."""
        for tick in range(self.tick + 1, self.tick + 1 + ticks):
            for machine in machines:
                machine.send(tick + 0.5)
        smooth(self.worker, machines, self.tick + ticks)

    def look(self, judge: TickJudge | None = None) -> Decided:
        return (judge or self.judge).judge(self.reader, self.reader.coherent()).decided

    def look_with(self, reader: SnapshotReader, rule: str) -> Decided:
        return self.another(rule).judge(reader, reader.coherent(lambda _, number: number == OWN)).decided

    def outcomes(self, decided: Decided) -> dict[str, Outcome]:
        return {host.name: decided.heat.verdicts[host.id].outcome for host in decided.picture.hosts}


@pytest.fixture
def scene(shards: Shards, cluster: Cluster, worker: Worker) -> Iterator[Scene]:
    found = Scene(shards, cluster, worker)
    with found.reader:
        yield found


def test_a_sample_is_judged_before_its_tick_is_due(scene: Scene) -> None:
    rising, calm = scene.machines
    scene.at(1.6)
    assert set(scene.outcomes(scene.look()).values()) == {Outcome.NOT_HOT}
    rising.busy = 0.97
    scene.send([rising, calm], STEPPED - 1)
    scene.at(STEPPED + 0.6)  # the tick before is due, the next one has begun
    assert scene.judge.arrived(scene.reader) is None
    scene.look()
    scene.tick += STEPPED - 1
    scene.send([rising], 1)  # the other host samples later
    scene.at(1.7)
    decided = scene.judge.arrived(scene.reader)
    assert decided is not None
    assert scene.outcomes(decided) == {"rising": Outcome.HOT, "calm": Outcome.NOT_HOT}
    (hot,) = (host for host in decided.picture.hosts if host.name == "rising")
    assert hot.age_seconds == pytest.approx(0.2)
    figures = decided.heat.verdicts[hot.id].figures
    assert [each.age_seconds for each in figures if each.validity] == pytest.approx([0.2])
    assert scene.judge.arrived(scene.reader) is None  # nothing has come since
    scene.at(2.4)
    again = scene.look()
    assert scene.outcomes(again)["rising"] is Outcome.HOT
    (figure,) = (each for each in again.heat.verdicts[hot.id].figures if each.validity)
    assert figure.age_seconds == pytest.approx(0.9)
    assert again.plan is not None
    assert [move.source.name for move in again.plan.moves] == ["rising"]


def test_who_falls_silent_is_late_when_the_next_tick_is_due(scene: Scene) -> None:
    _, calm = scene.machines
    scene.at(1.6)
    scene.look()
    scene.send([calm], 1)
    scene.at(2.4)
    scene.judge.arrived(scene.reader)
    assert set(scene.outcomes(scene.look()).values()) == {Outcome.NOT_HOT}
    scene.at(2.6)
    assert scene.outcomes(scene.look()) == {"rising": Outcome.ABSTAINED, "calm": Outcome.NOT_HOT}


def test_a_clock_that_is_ahead_is_no_newer_sample(scene: Scene) -> None:
    rising, calm = scene.machines
    scene.at(1.6)
    scene.look()
    rising.busy, rising.clock_ahead = 0.97, 300.0
    for tick in range(1, STEPPED + 1):
        rising.send(scene.tick + tick + 0.5)
    scene.send([calm], STEPPED)
    scene.at(STEPPED + 1.6)
    scene.judge.arrived(scene.reader)
    assert scene.outcomes(scene.look()) == {"rising": Outcome.ABSTAINED, "calm": Outcome.NOT_HOT}


def test_who_looks_often_and_who_looks_once_say_the_same(scene: Scene) -> None:
    seldom = scene.another()
    chance = [0.5, 0.97, 0.97, 0.97, 0.97, 0.85, 0.85, 0.3, 0.3, 0.3, 0.95, 0.95, 0.95, 0.95, 0.2]
    for busy in chance:
        scene.machines[0].busy = busy
        scene.send(scene.machines, 1)
        scene.tick += 1
        for second in (0.6, 0.9, 1.2):
            scene.at(second)
            scene.judge.arrived(scene.reader)
        scene.at(1.4)
        with SnapshotReader(scene.reader.cluster.another(), clock=scene.clock) as reader:
            once = seldom.judge(reader, reader.coherent()).decided
        often = scene.look()
        assert scene.outcomes(often) == scene.outcomes(once)
        assert often.heat.hot == once.heat.hot


@pytest.mark.parametrize("rule", REGISTRY)
def test_every_rule_judges_what_has_come_as_it_judges_a_tick(
    rule: str, shards: Shards, cluster: Cluster, worker: Worker
) -> None:
    scene = Scene(shards, cluster, worker, rule)
    with scene.reader:
        scene.at(1.6)
        scene.look()
        scene.machines[0].busy = 0.97
        scene.send(scene.machines, 12)
        scene.tick += 12
        scene.at(0.7)
        scene.judge.arrived(scene.reader)
        early = scene.look().heat.verdicts
        scene.at(1.6)
        with SnapshotReader(scene.reader.cluster.another(), clock=scene.clock) as reader:
            late = scene.another(rule).judge(reader, reader.coherent()).decided.heat.verdicts
    assert {key: (each.outcome, each.reason) for key, each in early.items()} == {
        key: (each.outcome, each.reason) for key, each in late.items()
    }


@pytest.mark.parametrize("rule", REGISTRY)
def test_one_reading_of_newest_samples_says_what_two_readings_say(
    rule: str, shards: Shards, cluster: Cluster, worker: Worker
) -> None:
    scene = Scene(shards, cluster, worker, rule)
    rising, calm = scene.machines
    rising.busy = 0.97
    scene.send([rising, calm], STEPPED)
    scene.tick += STEPPED
    scene.send([rising], 1)  # the other one falls silent
    with scene.reader:
        for second in (0.7, 1.4, 2.4, 2.6, 4.0, 60.0):
            scene.at(second)
            found = []
            for judge in (lambda each: scene.another(rule).newest(each), lambda each: scene.look_with(each, rule)):
                with SnapshotReader(scene.reader.cluster.another(), clock=scene.clock) as reader:
                    decided = judge(reader)
                hosts = {host.name: (host.state, host.cause, host.age_seconds) for host in decided.picture.hosts}
                verdicts = {key: (each.outcome, each.reason) for key, each in decided.heat.verdicts.items()}
                found.append((hosts, verdicts, decided.heat.hot, bool(decided.blind), len(decided.picture.errors)))
            assert found[0] == found[1], second
        scene.at(1.7)
        assert scene.another(rule).newest(scene.reader).picture.tick == scene.tick
        scene.at(60.0)
        assert scene.another(rule).newest(scene.reader).picture.tick == scene.tick + 58
        scene.tick += 1
        calm.clock_ahead = 300.0
        calm.send(scene.tick + 1.5)
        scene.send([rising], 1)
        scene.at(2.4)
        ahead = scene.another(rule).newest(scene.reader)
    assert scene.outcomes(ahead)["calm"] is Outcome.ABSTAINED
    (said,) = (ahead.heat.verdicts[host.id].reason for host in ahead.picture.hosts if host.name == "calm")
    assert "clock is" in said
