"""What the vCPUs of a guest have had: run time, delay, throttled time, what is left; and its state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from math import isnan
from pathlib import Path

import pytest

from acquisition.model.codes import FIRST, MISSING, RESET, UNREADABLE, VALID
from acquisition.model.vm_state import INCOMING, RUNNING, STOPPED, UNKNOWN, number_of, state_of
from probes.figures.vms_suffering import VmsSuffering, summed
from probes.metrics import HOST
from probes.sampling.host_facts import HostFacts
from tests.support.sampled_guest import GUEST, METRICS, NAMES, SampledGuest

V1 = "5:cpu,cpuacct:/machine/qemu-1/{}\n0::/elsewhere\n"
V2 = "0::/machine.slice/qemu-1/{}\n"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SampledGuest]:
    made = SampledGuest(tmp_path)
    with closing(made.source):
        yield made


def test_run_time_and_delay_are_those_of_all_vcpu_threads(host: SampledGuest) -> None:
    host.guest()
    for thread in (1, 2, 3):
        host.had_more(thread, 0.0, 0.0)
    assert host.codes() == [FIRST, FIRST, MISSING, FIRST]
    host.had_more(1, 0.5, 0.25)
    host.had_more(2, 0.75, 0.0)
    host.had_more(3, 1.0, 1.0)  # a worker is no vCPU
    run, delay, throttled, suffering = host.vcpus()
    assert (run, delay) == ((1.25, VALID), (0.25, VALID))
    assert throttled[1] == suffering[1] == MISSING  # no cgroup says anything
    assert isnan(suffering[0])


@pytest.mark.parametrize(
    ("cgroups", "base", "text"),
    [
        (V1, "cpu,cpuacct/machine/qemu-1", "nr_periods {}\nnr_throttled 2\nthrottled_time {}000\n"),
        (V1, "cpu/machine/qemu-1", "nr_periods {}\nnr_throttled 2\nthrottled_time {}000\n"),
        (V2, "machine.slice/qemu-1", "usage_usec 5\nnr_periods {}\nnr_throttled 2\nthrottled_usec {}\n"),
    ],
    ids=["v1 by all controllers", "v1 by the controller", "v2"],
)
def test_suffering_is_the_delay_that_is_not_the_guests_own_limit(
    host: SampledGuest, cgroups: str, base: str, text: str
) -> None:
    host.guest()
    for thread in (1, 2):
        host.cgroups = cgroups.format(f"vcpu{thread - 1}")
        host.had_more(thread, 0.0, 0.0)
        host.proc.cgroup(f"{base}/vcpu{thread - 1}", text.format(4, 10))
    host.proc.cgroup(base, text.format(0, 0))
    assert host.codes()[2:] == [FIRST, FIRST]
    for thread, delay in ((1, 0.5), (2, 0.75)):
        host.cgroups = cgroups.format(f"vcpu{thread - 1}")
        host.had_more(thread, 0.1, delay)
        host.proc.cgroup(f"{base}/vcpu{thread - 1}", text.format(14, 400_010))
    assert host.vcpus()[1:] == [(1.25, VALID), (0.8, VALID), (0.45, VALID)]
    host.proc.cgroup(f"{base}/vcpu0", text.format(24, 900_010))
    assert host.vcpus()[1:] == [(0.0, VALID), (0.5, VALID), (0.0, VALID)]  # charged a tick later: no less than 0


def test_limit_that_is_set_later_is_found_while_the_guest_waits(host: SampledGuest) -> None:
    text = "nr_periods {0}\nnr_throttled {0}\nthrottled_usec {1}\n"
    host.guest()
    host.cgroups = V2.format("")
    host.proc.cgroup("machine.slice/qemu-1", text.format(0, 0))
    for thread in (1, 2):
        host.had_more(thread, 0.0, 0.0)
    host.values()
    assert host.vcpus()[2:] == [(0.0, VALID), (0.0, VALID)]
    for tick in range(1, 8):
        host.proc.cgroup("machine.slice/qemu-1", text.format(tick, tick * 600_000))
        host.had_more(1, 0.4, 0.6)
        found = host.vcpus()
    assert found[1:] == [(0.6, VALID), (0.6, VALID), (0.0, VALID)]


def test_cgroup_out_of_sight_leaves_throttled_time_missing(host: SampledGuest) -> None:
    host.guest()
    host.cgroups = "0::/../../elsewhere\n"
    for _ in range(2):
        host.had_more(1, 0.1, 0.1)
        host.had_more(2, 0.1, 0.1)
        codes = host.codes()
    assert codes == [VALID, VALID, MISSING, MISSING]
    assert host.labels["missing_vcpus"].startswith("no cpu.stat with throttled time")


def test_vcpu_that_comes_or_goes_adds_nothing_and_spoils_nothing(host: SampledGuest) -> None:
    host.guest()
    host.had_more(1, 0.0, 0.0)
    host.had_more(2, 0.0, 0.0)
    host.values()
    host.proc.has_threads(4711, [*NAMES, "CPU 2/KVM"])
    for thread in (1, 2, 4):
        host.had_more(thread, 0.5, 0.1)
    values = host.values()
    assert values["vcpu_count"] == (3.0, VALID)
    assert values["vcpu_run_ratio"] == (1.0, VALID)
    for thread in (1, 2, 4):
        host.had_more(thread, 0.9, 0.1)
    assert host.values()["vcpu_run_ratio"] == (2.7, VALID)
    host.proc.spends(4711, 270, 270)  # of three vCPUs, one of which has gone meanwhile
    host.proc.has_threads(4711, NAMES)
    for thread in (1, 2):
        host.had_more(thread, 0.9, 0.1)
    values = host.values()
    assert values["vcpu_count"] == (2.0, VALID)
    assert values["vcpu_run_ratio"] == (1.8, VALID)
    assert values["cpu_guest_ratio"] == (2.7, VALID)


@pytest.mark.parametrize(
    ("text", "code"), [("5 5 5\n", RESET), ("x\n", UNREADABLE), ("0 0 0\n", MISSING), ("1 2\n", UNREADABLE)]
)
def test_text_that_cannot_be_is_no_figure(host: SampledGuest, text: str, code: int) -> None:
    host.guest(names=NAMES[:2])
    host.had_more(1, 0.0, 0.0)
    host.values()
    (host.proc.path / "4711/task/4712/schedstat").write_text(text)
    assert host.codes()[:2] == [code, code]


def test_threads_without_names_are_known_by_the_guest_that_they_ran(host: SampledGuest) -> None:
    host.guest(names=["qemu-system-x86"] * 4)
    host.proc.has_open(4711, ["anon_inode:kvm-vm", "anon_inode:kvm-vcpu:0", "anon_inode:kvm-vcpu:1"])
    for thread in range(4):
        host.had_more(thread, 0.0, 0.0)
        host.proc.thread_ran_a_guest(4711, thread, 0)
    values = host.values()
    assert values["vcpu_count"] == (2.0, VALID)
    assert values["vcpu_run_ratio"][1] == MISSING  # never that of all threads
    assert host.labels["missing_vcpus"].startswith("its threads have no names")
    for thread in (1, 2):
        host.proc.thread_ran_a_guest(4711, thread, 5)
    host.values()
    for thread in range(4):
        host.had_more(thread, 0.25, 0.1)
    assert host.vcpus()[:2] == [(0.5, VALID), (0.2, VALID)]


# --- of the host -------------------------------------------------------------------------------------------------


def test_the_host_has_the_sum_and_the_worst_of_its_vms() -> None:
    facts = HostFacts("host-a")
    figures = VmsSuffering(facts)
    assert set(figures.metrics) <= {metric.name for metric in HOST.metrics}

    def row() -> list[tuple[float, int]]:
        found: dict[str, tuple[float, int]] = {}
        figures.read(1.0, found)
        return list(found.values())

    assert [code for _, code in row()] == [MISSING, MISSING]  # no VMs are read
    facts.suffering = summed([0.5, float("nan"), 1.5], [VALID, FIRST, VALID], 1.0)
    assert row() == [(2.0, VALID), (1.5, VALID)]
    facts.suffering = summed([], [], 1.0)
    assert row() == [(0.0, VALID), (0.0, VALID)]
    facts.suffering = summed([0.5, float("nan")], [VALID, MISSING], 1.0)
    assert [code for _, code in row()] == [MISSING, MISSING]
    facts.suffering = summed([0.5], [VALID], 1.0)
    assert [row()[0][1] for _ in range(5)] == [VALID, VALID, VALID, MISSING, MISSING]  # VMs are not read any more


def test_the_source_of_vms_leaves_what_they_suffer(host: SampledGuest) -> None:
    host.guest()
    host.cgroups = V2.format("")
    host.proc.cgroup("machine.slice/qemu-1", "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n")
    for _ in range(2):
        host.had_more(1, 0.1, 0.3)
        host.had_more(2, 0.1, 0.1)
        host.values()
    assert host.facts.suffering is not None
    assert (host.facts.suffering.all, host.facts.suffering.code) == (pytest.approx(0.4), VALID)


# --- states ------------------------------------------------------------------------------------------------------


def test_state_of_a_guest_that_is_stopped_and_goes_on(host: SampledGuest) -> None:
    host.guest()
    states = []
    for letter in "STtS":
        host.proc.state(4711, letter)
        states.append(state_of(host.values()["state"][0]))
    assert states == [RUNNING, STOPPED, STOPPED, RUNNING]


@pytest.mark.parametrize(
    ("words", "names", "before"),
    [([], NAMES, INCOMING), (["-accel", "kvm"], ["x"] * 3, INCOMING), ([], ["x"] * 3, UNKNOWN)],
    ids=["named threads", "KVM without names", "nothing is known"],
)
def test_guest_is_incoming_until_its_vcpus_have_run(
    host: SampledGuest, words: list[str], names: list[str], before: str
) -> None:
    host.guest([*GUEST, "-incoming", "defer", *words], names)
    for thread in (1, 2):
        host.proc.threads_had(4711, {thread: (700_000, 0)})
    first = host.reading()
    assert state_of(first.values[METRICS.index("state")]) == before
    assert first.entities[0].labels["incoming"] == "yes"
    host.proc.threads_had(4711, {1: (11_000_000, 0)})
    if names is not NAMES:
        host.proc.thread_ran_a_guest(4711, 1, 1)
    second = host.reading()
    assert state_of(second.values[METRICS.index("state")]) == RUNNING
    assert second.entities[0].labels.get("incoming") is None
    assert second.entities[0].labels["received"] == f"{host.seconds:.2f}"
    assert second.entities[0].id == first.entities[0].id


def test_cpu_time_of_receiving_a_guest_is_not_its_load(host: SampledGuest) -> None:
    host.guest([*GUEST, "-incoming", "defer"])
    found = []
    for spent, ran in ((0, 0), (30, 0), (50, 10), (80, 70)):
        host.proc.spends(4711, spent, 0)
        host.proc.threads_had(4711, dict.fromkeys((1, 2), (700000 + ran * 10000000, 0)))
        found.append(host.values()["cpu_ratio"])
    assert [code for _, code in found] == [FIRST, FIRST, FIRST, VALID]
    assert found[-1][0] == pytest.approx(0.8)


@pytest.mark.parametrize("names", [NAMES, ["x"] * 4], ids=["no waits are counted", "threads without names"])
def test_guest_time_ends_the_wait_for_a_guest(host: SampledGuest, names: list[str]) -> None:
    """Also on a kernel that counts nothing of threads (CONFIG_SCHED_INFO), where all their numbers stay 0."""
    host.guest([*GUEST, "-accel", "kvm", "-incoming", "defer"], names)
    found = []
    for spent, guest in ((0, 0), (30, 0), (50, 40), (80, 75), (80, 75)):
        host.proc.spends(4711, spent, guest)
        host.proc.threads_had(4711, dict.fromkeys((1, 2), (0, 0)))
        values = host.values()
        found.append((values["cpu_ratio"][1], state_of(values["state"][0])))
    assert found == [
        (FIRST, INCOMING), (FIRST, INCOMING), (FIRST, RUNNING), (VALID, RUNNING), (VALID, RUNNING),
    ]  # fmt: skip
    assert "received" in host.labels


def test_numbers_of_states() -> None:
    assert [number_of(state) for state in (RUNNING, STOPPED, INCOMING, UNKNOWN)] == [1.0, 2.0, 3.0, None]
    assert [state_of(value) for value in (1.0, 2.0, 3.0, None, float("nan"), 7.0)] == [
        RUNNING, STOPPED, INCOMING, UNKNOWN, UNKNOWN, UNKNOWN,
    ]  # fmt: skip
