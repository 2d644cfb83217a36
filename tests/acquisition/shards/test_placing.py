"""Which replica follows which master: no two of a master in one place, and the least that has to be done."""

from __future__ import annotations

import itertools

import pytest

from acquisition.shards.topology.placing import Placing, Step, place

#: Two masters a and b with a replica each on the other's machine, by id: name of the machine and a letter.
MASTERS = ["1m", "2m", "3m"]
FOLLOWING = {"2r": "1m", "3r": "2m", "1r": "3m"}


def planned(masters: list[str], following: dict[str, str], spare: list[str], each: int = 1) -> Placing:
    """Ids begin with the machine that they lie on."""
    return place({one: one[0] for one in [*masters, *following, *spare]}, masters, following, spare, each)


def followed(plan: Placing, following: dict[str, str]) -> dict[str, str]:
    """Who follows whom when all is done."""
    return following | dict(plan.steps)


def test_what_is_as_it_should_be_stays() -> None:
    assert planned(MASTERS, FOLLOWING, []) == Placing([], [])


def test_new_machine_exchanges_replicas_with_another() -> None:
    plan = planned([*MASTERS, "4m"], FOLLOWING, ["4r"])
    assert plan == Placing([Step("4r", "1m"), Step("2r", "4m")], [])


def test_a_dead_machine_is_replaced_where_most_masters_are_first() -> None:
    # machine 1 died: 2r is a master now, and 3m has lost its replica
    plan = planned(["2m", "3m", "2r"], {"3r": "2m"}, ["1m", "1r"])
    assert plan == Placing([Step("1m", "2r"), Step("1r", "3m")], [])


def test_a_replica_beside_its_master_is_exchanged() -> None:
    plan = planned(["1m", "2m"], {"1r": "1m", "2r": "2m"}, [])
    assert plan.lacking == []
    assert followed(plan, {}) == {"2r": "1m", "1r": "2m"}


def test_what_cannot_be_had_is_said() -> None:
    assert planned(["1m", "2m"], {}, ["1r"]) == Placing([Step("1r", "2m")], ["1m"])
    assert planned(["1m"], {}, ["1r"]) == Placing([], ["1m"])


def test_what_nobody_lacks_makes_one_more() -> None:
    assert planned(["1m", "2m"], {"2r": "1m", "1r": "2m"}, ["3s"]).steps == [Step("3s", "1m")]
    assert planned(["1m"], {}, ["1s"], 0) == Placing([], [])


@pytest.mark.parametrize("each", [0, 1, 2])
def test_any_order_of_servers_ends_with_replicas_elsewhere(each: int) -> None:
    masters = ["1m", "2m", "3m", "4m"]
    servers = [f"{machine}{copy}" for machine in "1234" for copy in range(each)]
    for order in itertools.islice(itertools.permutations(servers), 0, None, 97):
        plan = planned(masters, {}, list(order), each)
        assert not plan.lacking
        found = followed(plan, {})
        for master in masters:
            machines = [replica[0] for replica, leader in found.items() if leader == master]
            assert len({master[0], *machines}) == 1 + len(machines) == 1 + each
        again = planned(masters, found, [], each)
        assert again == Placing([], [])
