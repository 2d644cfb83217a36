"""Hosts that are saturated for long: they give VMs where their guests lose more than a move costs."""

from __future__ import annotations

import pytest

from acquisition.config.decisions import Decisions, Policy
from acquisition.model.derived import WAITING
from acquisition.model.inputs import Bursts
from filters.decisions.deciding import judge_all
from filters.decisions.method import method_of
from filters.decisions.migrations import Migrations
from filters.decisions.picture import CPU, Host
from filters.decisions.plan import RELIEF, SATURATED, Proposals, propose
from filters.decisions.verdict import Outcome
from tests.support.pictures import constant, host, inputs, picture, vm


def busy(name: str = "big", *, waiting: float = 0.015, seconds: float = 60.0, level: float = 0.92) -> Host:
    """A host of 64 cores that has been busy for so long, and whose guests wait."""
    bursts = Bursts(seconds, seconds, 0, 0.0, 0.0, 0.0, 0, seconds, 0.0)
    kept = inputs(
        threshold=0.9, above=8, counted=8, counted_valid=8, plateau=4, lowest=level, highest=level, bursts=bursts,
        counted_seconds=8.0, plateau_seconds=4.0,
    )  # fmt: skip
    extra = {
        CPU: constant(CPU, level)._replace(inputs=kept, recent=(), recent_means=()),
        WAITING: constant(WAITING, waiting),
        "vms_suffering_ratio": constant("vms_suffering_ratio", 1.0),
    }
    return host(name, [vm(f"{name}-{n}", level * 16.0) for n in range(4)], cores=64.0, extra=extra)


CALM = host("calm", cpu=0.1, cores=64.0, extra={WAITING: constant(WAITING, 0.0)})


def plan(*hosts: Host, **policy: float) -> Proposals:
    seen, how = picture(*hosts), method_of(Decisions(policy=Policy(**policy)))  # type: ignore[arg-type]
    return propose(seen, judge_all(seen, how.rule, how.parameters), how, Migrations())


def test_a_host_that_is_saturated_for_long_gives_one_vm() -> None:
    found = plan(busy(), CALM, moves_per_host=9)
    assert [(move.cause, move.source.name, move.destination.name) for move in found.moves] == [
        (SATURATED, "big", "calm"),
    ]  # fmt: skip
    assert found.moves[0].why_host.outcome is Outcome.SATURATED
    assert found.moves[0].why_host.reason == (
        "saturated without harm: guests of big wait 2% of the time; CPU 92% of 64 cores; "
        "all together 0.9 s in every second, for 60 s: a move costs less"
    )


@pytest.mark.parametrize(
    ("subject", "policy"),
    [
        (busy(seconds=59.0), {}),
        (busy(waiting=0.004), {}),
        (busy(), {"saturated_waiting": 1.0}),
        (busy(), {"saturated_seconds": 0.0}),
    ],
    ids=["not for long", "guests lose little", "as configured", "switched off"],
)
def test_others_keep_theirs(subject: Host, policy: dict[str, float]) -> None:
    found = plan(subject, CALM, **policy)
    assert not found.moves
    assert not found.refusals


def test_hot_hosts_come_first() -> None:
    found = plan(busy(), busy("hot", waiting=0.2), CALM, moves=1)
    assert [(move.cause, move.source.name) for move in found.moves] == [(RELIEF, "hot")]
