"""Place of a new VM: order of hosts, refusals, and what would help."""

from __future__ import annotations

import pytest

from acquisition.config.decisions import Decisions, Policy
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import method_of
from filters.decisions.migrations import Log, Migrations
from filters.decisions.picture import NETWORK, Host
from filters.decisions.place import Placed, Wanted, place
from filters.documents.placing import places_document
from filters.documents.verdicts import Hosts
from filters.query.place_command import lines
from tests.support.pictures import GIB, constant, host, picture, vm


def decided(*hosts: Host) -> Decided:
    return decide(picture(*hosts), method_of(Decisions(policy=Policy())), Log(Migrations(), 1000.5))


def placed(wanted: Wanted, *hosts: Host) -> Placed:
    made = decided(*hosts)
    assert made.plan is not None
    return place(wanted, made.plan.state, made.method.placement)


def names(found: Placed) -> list[str]:
    return [each.host.name for each in found.places]


def reasons(found: Placed) -> dict[str, str]:
    return {each.host.name: each.reason for each in found.refusals}


def test_hosts_in_the_order_of_the_placement() -> None:
    found = placed(Wanted(2, 4 * GIB), host("half", cpu=0.5), host("idle", cpu=0.1))
    assert names(found) == ["idle", "half"]
    figures = {each.name: each.value for each in found.places[0].figures}
    assert figures["cpu_busy_ratio with the VM"] == pytest.approx(0.35)


def test_each_host_that_does_not_take_it_is_refused_with_a_reason() -> None:
    hot = host("hot", [vm("a", 7.8)])
    found = placed(
        Wanted(6, 4 * GIB), hot, host("cordoned", cpu=0.1, labels={"cordoned": "1"}), host("full", cpu=0.6),
        host("small", cpu=0.0, cores=4.0), host("late", cpu=0.0, state="late"),
    )  # fmt: skip
    assert not found.places
    why = reasons(found)
    assert why["hot"].startswith("it is hot: ")
    assert (why["cordoned"], why["late"]) == ("it is cordoned", "it is late")
    assert why["small"] == "it has 4 CPUs, fewer than 6 vCPUs"
    assert why["full"] == "cpu_busy_ratio would be 1.35, above 0.85"
    assert found.remedy == "full lacks least: 0.6 of cpu_busy_ratio"


def test_a_network_that_is_missing_is_said() -> None:
    dark = host("dark", cpu=0.1, extra={NETWORK: constant(NETWORK, 0.0, stale_seconds=None)})
    for wanted in (Wanted(2, GIB), Wanted(2, GIB, network=1e6)):
        (there,) = placed(wanted, dark).places
        assert there.reason.endswith("; network of dark is MISSING and was not checked")
    (there,) = placed(Wanted(2, GIB), host("known", cpu=0.1)).places
    assert "MISSING" not in there.reason


HOT = host("hot", [vm("x", 7.9, labels={"affinity": "web"})])


@pytest.mark.parametrize(
    ("wanted", "hosts", "remedy"),
    [
        (
            Wanted(2, GIB, network=1e9),
            [host("used", cpu=0.1, extra={NETWORK: constant(NETWORK, 0.5)})],
            "used lacks least: 0.45 of network_used_ratio",
        ),
        (
            Wanted(16, GIB, use=0.1),
            [host("narrow", cpu=0.1), host("wide", cpu=0.2, cores=12.0)],
            "wide is nearest: it has 12 CPUs, fewer than 16 vCPUs",
        ),
        (
            Wanted(2, GIB, {"affinity": "web"}),
            [HOT, host("a", cpu=0.1)],
            "a is nearest: x of affinity web is on hot",
        ),
        (
            Wanted(2, GIB),
            [host("late", cpu=0.8, state="late"), HOT, host("shut", cpu=0.1, labels={"cordoned": "1"})],
            "shut is nearest: it is cordoned",
        ),
        (
            Wanted(2, GIB),
            [HOT],
            "hot is nearest: it is hot: CPU 99% of 8 cores; whether guests wait is unknown; "
            "cpu_busy_ratio would be 1.24, above 0.85",
        ),
        (
            Wanted(2, GIB, {"hugepages": "1"}),
            [host("a", cpu=0.1)],
            "a is nearest: MISSING: huge pages of the host, or the memory of the VM",
        ),
        (Wanted(2, GIB), [], "there are no hosts to choose from"),
    ],
    ids=["network", "cpus", "affinity", "closed", "hot", "hugepages", "none"],
)
def test_where_no_host_takes_it_the_answer_says_what_would_help(wanted: Wanted, hosts: list[Host], remedy: str) -> None:
    found = placed(wanted, *hosts)
    assert (found.places, found.remedy) == ((), remedy)


def test_expected_use_and_labels_count() -> None:
    hosts = host("one", cpu=0.5), host("gpu", cpu=0.6, labels={"groups": "gpu"})
    assert names(placed(Wanted(6, GIB, use=0.1), *hosts)) == ["one", "gpu"]
    assert names(placed(Wanted(6, GIB, {"group": "gpu"}, use=0.1), *hosts)) == ["gpu"]
    assert names(placed(Wanted(6, GIB, {"prefer_group": "gpu"}, use=0.1), *hosts)) == ["gpu", "one"]


def test_moves_that_are_proposed_count_as_done() -> None:
    hot, idle = host("hot", [vm("a", 4.0), vm("b", 3.8, labels={"pinned": "1"})]), host("idle", cpu=0.1)
    found = placed(Wanted(2, GIB), hot, idle)  # a goes to idle, which then uses 0.6
    assert reasons(found)["idle"] == "cpu_busy_ratio would be 0.85, less than 0.05 below the cool level 0.8"


def test_document_and_text_name_the_same_hosts() -> None:
    made, wanted = decided(host("idle", cpu=0.1, labels={}), host("full", cpu=0.7)), Wanted(2, GIB)
    document = places_document(made, wanted)
    assert document.places is not None
    assert document.refused is not None
    assert [each.host for each in document.places] == ["idle"]
    text = list(lines(made, wanted, Hosts()))
    assert text[1] == "new VM, 2 vCPUs expected to use 200% of a core, 1.00 GiB: 1 host of 2 can take it"
    assert text[3].startswith("1. idle (age 0.50 s): ")
    assert text[-1] == f"not on: full: {document.refused[0].reason}"


def test_no_answer_while_no_host_can_be_judged() -> None:
    blind = decide(picture()._replace(blind="no host is visible"), method_of(Decisions()), Log(Migrations(), 0.0))
    document = places_document(blind, Wanted(2, GIB))
    assert (document.places, document.refused, document.blind) == (None, None, "no host is visible")
