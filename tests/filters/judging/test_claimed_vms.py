"""A host that reports the VMs of others, through the real filter: what it may do to them, and for how long."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest

from acquisition.config.decisions import Decisions
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.values.states import CLAIM_SECONDS
from acquisition.snapshot.vms.placement import CONFLICT, INCOMING, MIGRATING
from filters.decisions.deciding import Decided
from filters.decisions.method import method_of
from filters.decisions.picture import Conflict
from filters.judging.judge import TickJudge
from filters.worker.inputs.plan import InputsSettings
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.data_center import KEEP_TICKS, Guest, Machine, run, smooth, smoothing

OWN = (Guest("a", 2.0, 4), Guest("b", 2.4, 2), Guest("c", 3.2, 16))
OLDER = {"started": "-1000000"}


class Stage:
    """hot (7.6 of 8 cores), calm, and a host that is to claim VMs; its clock is that of the filter."""

    def __init__(self, shards: Shards, cluster: Cluster, worker: Worker, patch: pytest.MonkeyPatch) -> None:
        self.shards, self.worker, self.skew = shards, worker, 0.0
        real = time.time
        patch.setattr(time, "time", lambda: real() + self.skew)
        self.hot, self.calm = Machine(cluster, "hot", OWN), Machine(cluster, "calm", [Guest("d", 2.0, 8)])
        self.evil = Machine(cluster, "evil", [Guest("e", 0.1, 1)])
        self.evil.busy = 0.85  # so that nothing goes there
        self.machines = [self.evil, self.hot, self.calm]
        self.tick = run(worker, self.machines, ahead=-30)
        settings = Decisions()
        self.judge = TickJudge(settings, method_of(settings))

    def claim(self, *guests: Guest) -> None:
        self.evil.guests = (self.evil.guests[0], *guests)
        self.evil.send_tables(self.tick + 1.2)

    def go_on(self, machines: Sequence[Machine] = ()) -> Decided:
        self.tick += 1
        for machine in machines or self.machines:
            machine.send(self.tick + 0.5)
        smooth(self.worker, machines or self.machines, self.tick)
        with SnapshotReader(self.shards.connect(), clock=lambda: self.tick + 1.6) as reader:
            snapshot = reader.coherent()
            self.places = snapshot.placements.all
            return self.judge.judge(reader, snapshot).decided


@pytest.fixture
def stage(shards: Shards, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with smoothing(cluster) as worker:
        yield Stage(shards, cluster, worker, monkeypatch)


def moves(decided: Decided) -> list[tuple[str, str]]:
    assert decided.plan is not None
    return [(move.vm.name, move.source.name) for move in decided.plan.moves]


def reasons(decided: Decided) -> dict[str, str]:
    assert decided.plan is not None
    return {each.vm.name if each.vm else each.host.name: each.reason for each in decided.plan.refusals}


@pytest.mark.parametrize(("cores", "state"), [(4.0, CONFLICT), (0.0, INCOMING)])
def test_a_claimed_vm_is_held_for_a_minute_and_its_host_never(stage: Stage, cores: float, state: str) -> None:
    assert moves(stage.go_on()) == [("c", "hot")]
    stage.claim(Guest("c", cores, 16, OLDER))
    decided = stage.go_on()
    assert (moves(decided), reasons(decided)["c"]) == ([("b", "hot")], "it is migrating")
    assert (stage.places["uuid-c"].host, stage.places["uuid-c"].state) == ("hot", MIGRATING)
    stage.skew = CLAIM_SECONDS + 1.0
    decided = stage.go_on()
    assert "c" not in reasons(decided)
    assert (stage.places["uuid-c"].host, stage.places["uuid-c"].state) == ("hot", state)
    conflict = Conflict("uuid-c", stage.hot.id, stage.evil.id)
    assert decided.picture.conflicts == ((conflict,) if state == CONFLICT else ())


def test_a_thousand_claims_stop_no_other_vm(stage: Stage) -> None:
    nobody = [Guest(f"x{number}", 1.0, 1) for number in range(1000)]
    stage.claim(*(guest._replace(labels=OLDER) for guest in OWN[:2]), *nobody)
    decided = stage.go_on()
    assert moves(decided) == [("c", "hot")]
    stage.skew = CLAIM_SECONDS + 1.0
    assert {each.vm for each in stage.go_on().picture.conflicts} == {"uuid-a", "uuid-b"}


def test_who_had_a_vm_is_known_to_a_filter_that_starts_again(stage: Stage, cluster: Cluster) -> None:
    stage.worker.close()
    stage.claim(Guest("c", 4.0, 16, OLDER))
    stage.evil.send(stage.tick + 1.5)
    settings = FilterSettings(linger_seconds=0.0, keep_ticks=KEEP_TICKS, inputs=InputsSettings())
    stage.worker = lone_worker(cluster, read_layout(cluster), settings)
    try:
        smooth(stage.worker, [stage.evil], stage.tick + 1)
        stage.hot.restart(stage.tick + 1.2)
        stage.tick += 1
        decided = stage.go_on()
    finally:
        stage.worker.close()
    placed = stage.places["uuid-c"]
    assert (placed.host, placed.evidence[0].host) == ("hot", "hot")
    assert all(transit.origin == stage.hot.id for transit in decided.picture.transits)
