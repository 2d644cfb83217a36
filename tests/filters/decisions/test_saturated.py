"""Hosts that are saturated for long: they give VMs where their guests lose more than a move costs."""

from __future__ import annotations

import pytest

from acquisition.config.decisions import Decisions, Policy
from acquisition.model.derived import WAITING
from acquisition.model.inputs import Bursts
from filters.decisions.deciding import judge_all
from filters.decisions.method import method_of
from filters.decisions.migrations import Migrations
from filters.decisions.picture import CPU, Host, Vm
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


def resized(guest: Vm, gib: float, cores: float | None = None) -> Vm:
    known = vm(guest.name, guest.readings["cpu_ratio"].mean or 0.0 if cores is None else cores, gib)
    return guest._replace(readings={**guest.readings, **known.readings})


ROOMY = host("calm", cpu=0.1, cores=64.0, gib=2048.0, extra={WAITING: constant(WAITING, 0.0)})
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
        "guests of big wait 2% of the time; CPU 92% of 64 cores; all together 0.9 s in every second, 54 s so far"
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


def test_no_vm_takes_longer_to_copy_than_guests_have_lost() -> None:
    large = tuple(resized(each, 300.0) for each in busy().vms)
    slow = {"migration_bytes_per_second": 1e8}
    found = plan(busy()._replace(vms=large), ROOMY, **slow)
    assert not found.moves
    assert {each.reason for each in found.refusals} == {
        "copying it to calm takes at least 3221 s, guests have lost 54 s so far: a smaller VM or more bandwidth "
        "would help"
    }
    mixed = busy()._replace(vms=(*large[:3], resized(large[3], 2.0)))
    assert [move.vm.name for move in plan(mixed, ROOMY, **slow).moves] == ["big-3"]
    assert plan(busy(seconds=3600.0)._replace(vms=large), ROOMY, **slow).moves  # what has lasted is worth more
    assert plan(busy(waiting=0.2)._replace(vms=large), ROOMY, **slow).moves  # a hot host is relieved in any case


def test_of_equal_vms_the_one_that_is_copied_soonest_moves() -> None:
    vms = busy().vms
    mixed = busy()._replace(vms=(resized(vms[0], 8.0), resized(vms[1], 1.0), *(resized(each, 4.0) for each in vms[2:])))
    assert [move.vm.name for move in plan(mixed, ROOMY).moves] == ["big-1"]


def test_saturated_host_that_its_vms_do_not_relieve_keeps_them() -> None:
    def own(level: float) -> Host:
        subject = busy(level=level)
        return subject._replace(vms=tuple(resized(each, 1.0, cores=1.0) for each in subject.vms))

    assert plan(own(0.92), ROOMY).moves  # without them 0.86
    found = plan(own(0.98), ROOMY)
    assert not found.moves
    assert "cpu_busy_ratio would be 0.917: 0.917 of its cpu_busy_ratio is not caused" in found.refusals[0].reason


def test_hot_hosts_come_first() -> None:
    found = plan(busy(), busy("hot", waiting=0.2), CALM, moves=1)
    assert [(move.cause, move.source.name) for move in found.moves] == [(RELIEF, "hot")]
