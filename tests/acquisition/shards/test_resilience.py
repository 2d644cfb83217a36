"""What is said of shards whose death, or whose machine's, would cost something, though nothing is away now."""

from __future__ import annotations

from acquisition.shards.servers import resilience
from acquisition.shards.servers.resilience import Risk
from acquisition.shards.servers.status import ShardStatus

PLANNED = {"a:1": "b:2", "b:1": "c:2", "c:1": "a:2"}  #: master -> its replica


def member(address: str, answering: bool, role: str, slots: int, replica_of: str, in_sync: bool) -> ShardStatus:
    """One shard, as far as risks depend on it."""
    return ShardStatus(address, answering, role=role, slots=slots, replica_of=replica_of, in_sync=in_sync)


def cluster(pairs: dict[str, str], *more: ShardStatus) -> list[ShardStatus]:
    """Masters and their replicas, in sync."""
    masters = [member(master, True, "master", 16384 // len(pairs), "", False) for master in pairs]
    return [*masters, *(member(it, True, "replica", 0, master, True) for master, it in pairs.items() if it), *more]


def told(rows: list[ShardStatus]) -> list[tuple[str, bool]]:
    return [(risk.about, risk.grave) for risk in resilience.risks(rows)]


def test_a_cluster_as_it_is_planned_runs_no_risk() -> None:
    assert told(cluster(PLANNED)) == []
    assert told([]) == []


def test_shards_without_replicas_are_as_they_were_asked_for() -> None:
    assert told(cluster({"a:1": "", "a:2": ""})) == []
    assert told(cluster({"a:1": "", "b:1": "", "c:1": "", "a:2": "", "a:3": ""})) == []


def test_a_master_alone_is_told_where_others_have_replicas() -> None:
    rows = cluster({**PLANNED, "b:1": ""})
    (risk,) = resilience.risks(rows)
    assert (risk.grave, risk.about) == (True, "shard b:1")
    assert "has no replica in sync" in risk.text
    assert "`shardpulse shards replicas --addresses …` or site.yml" in risk.text
    for replica in (
        member("c:2", True, "replica", 0, "b:1", False),
        member("c:2", False, "replica", 0, "", False),
    ):
        assert told([*rows, replica]) == [("shard b:1", True)]


def test_a_dead_master_and_one_that_owns_nothing_lack_no_replica() -> None:
    assert told(cluster(PLANNED, member("c:3", False, "master", 0, "", False))) == []
    assert told(cluster(PLANNED, member("c:3", True, "master", 0, "", False))) == []


def test_replica_beside_its_master_is_reported_if_avoidable() -> None:
    (risk,) = resilience.risks(cluster({**PLANNED, "b:1": "b:2"}))
    assert (risk.grave, risk.about) == (True, "shard b:2")
    assert "on the machine of its master b:1" in risk.text
    assert told(cluster({"127.0.0.1:1": "127.0.0.1:2", "localhost:3": "[::1]:4"})) == []
    assert told(cluster({"[fd00::1]:1": "[fd00::1]:2", "[fd00::2]:1": "[fd00::1]:3"})) == [("shard [fd00::1]:2", True)]


def test_on_one_machine_what_has_died_is_started_again() -> None:
    (risk,) = resilience.risks(cluster({"127.0.0.1:1": "127.0.0.1:3", "127.0.0.1:2": ""}))
    assert "restart what has died, e.g. with `shardpulse shards up`" in risk.text


def test_machine_with_majority_of_masters_is_reported_with_remedy() -> None:
    rows = cluster({"a:1": "b:2", "b:1": "c:2", "a:2": "c:1"})
    assert resilience.risks(rows) == [
        Risk(
            False,
            "machine a",
            "has 2 of 3 masters: if it dies, the others have no majority, and no replica takes over; move "
            "one with `shardpulse shards handover a:2 --to c:1 --addresses …` or site.yml",
        )
    ]


def test_half_of_masters_on_a_machine_has_no_handover_remedy() -> None:
    (risk,) = resilience.risks(cluster({"a:1": "b:2", "b:1": "c:2", "c:1": "a:2", "a:3": "b:4"}))
    assert (risk.grave, risk.about) == (False, "machine a")
    assert "no handover helps" in risk.text


def test_two_masters_or_two_machines_have_no_majority_to_lose() -> None:
    assert told(cluster({"a:1": "b:1", "b:2": "c:1"})) == []
    assert told(cluster({"a:1": "b:1", "b:2": "a:2", "a:3": "b:3"})) == []
