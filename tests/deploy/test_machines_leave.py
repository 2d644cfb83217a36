"""What drain.yml and replace.yml do, from what the shards answered: the filters alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("ansible", reason="ansible-core is of the extra test")

from filter_plugins import shardpulse_growth as roles
from filter_plugins import shardpulse_plan as inventory

from acquisition.shards.topology import placing

PLAN = {
    "addresses": {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}, "together": [],
    "masters": ["10.0.0.1:7600", "10.0.0.2:7600", "10.0.0.3:7600"],
    "replicas": ["10.0.0.1:7700", "10.0.0.2:7700", "10.0.0.3:7700"],
}  # fmt: skip


def row(address: str, slots: int = 0, of: str | None = None, answers: bool = True, state: str = "ok") -> dict[str, Any]:
    return {
        "address": address, "answering": answers, "cluster_state": state, "problem": "" if answers else "refused",
        "slots": slots, "role": "replica" if of else "master", "replica_of": of, "in_sync": of is not None,
        "memory_bytes": 10 << 20, "memory_limit_bytes": 64 << 20,
    }  # fmt: skip


THREE = [
    row("10.0.0.1:7600", 5461), row("10.0.0.2:7600", 5461), row("10.0.0.3:7600", 5462),
    row("10.0.0.2:7700", of="10.0.0.1:7600"), row("10.0.0.3:7700", of="10.0.0.2:7600"),
    row("10.0.0.1:7700", of="10.0.0.3:7600"),
]  # fmt: skip


def asked(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"stdout": json.dumps({"shards": rows}), "stderr": ""}


def test_partitions_and_replicas_of_a_host_go_elsewhere() -> None:
    assert roles.leaving(asked(THREE), PLAN, "c", 1) == {
        "problems": [],
        "masters": ["10.0.0.3:7600"],
        "replicas": ["10.0.0.3:7700"],
        "free": ["10.0.0.1:7700"],
        "staying": ["10.0.0.1:7600", "10.0.0.2:7600", "10.0.0.2:7700"],
    }


def test_what_was_interrupted_is_finished() -> None:
    freed = row("10.0.0.1:7700", state="fail")
    rows = [*(one for one in THREE if one["address"] not in ("10.0.0.3:7600", "10.0.0.1:7700")), freed]
    found = roles.leaving(asked(rows), PLAN, "c", 1)
    assert (found["problems"], found["masters"], found["free"]) == ([], [], ["10.0.0.1:7700"])
    assert found["replicas"] == ["10.0.0.3:7700"]


@pytest.mark.parametrize(
    ("rows", "replicas", "word"),
    [
        ([], 0, "no shard serves"),
        ([row("10.0.0.3:7600", 16384)], 0, "c holds everything"),
        (
            [row("10.0.0.1:7600", 8192), row("10.0.0.3:7600", 8192)],
            1,
            "without c 1 server(s) in other failure domains are lacking",
        ),
        ([*THREE, row("10.0.0.2:7601", answers=False)], 1, "10.0.0.2:7601 does not answer: refused"),
        ([row("10.0.0.1:7600", 1) | {"memory_bytes": 60 << 20}, row("10.0.0.3:7600", 1)], 0, "64 MiB, and 70 are used"),
    ],
)
def test_what_the_others_cannot_take_is_told(rows: list[dict[str, Any]], replicas: int, word: str) -> None:
    assert word in "; ".join(roles.leaving(asked(rows), PLAN, "c", replicas)["problems"])


def test_a_master_that_does_not_see_the_others_is_not_stopped() -> None:
    rows = [one | {"cluster_state": "fail"} if one["address"].startswith("10.0.0.3") else one for one in THREE]
    found = roles.leaving(asked(rows), PLAN, "c", 1)
    assert "10.0.0.3:7600 answers and does not see the others" in "; ".join(found["problems"])
    assert "10.0.0.3:7700" not in found["free"]
    reset = [*(one for one in THREE if one["address"] != "10.0.0.3:7600"), row("10.0.0.3:7600", state="fail")]
    found = roles.leaving(asked(reset), PLAN, "c", 1)  # interrupted after it was emptied: to be forgotten
    assert (found["problems"], found["masters"]) == ([], ["10.0.0.3:7600"])


def test_a_host_with_replicas_only_can_hold_them() -> None:
    rows = [
        row("10.0.0.1:7600", 8192), row("10.0.0.3:7600", 8192),
        row("10.0.0.2:7700", of="10.0.0.1:7600"), row("10.0.0.2:7701", of="10.0.0.3:7600"),
    ]  # fmt: skip
    assert roles.leaving(asked(rows), PLAN, "c", 1)["problems"] == []


@pytest.mark.parametrize("replicas", [1, 2])
@given(cores=st.lists(st.integers(1, 4), min_size=3, max_size=5))
def test_what_is_let_go_can_be_placed(replicas: int, cores: list[int]) -> None:
    variables = {
        f"h{one}": {"ansible_host": f"10.0.0.{one}", "redis_shard_cores": list(range(count))}
        for one, count in enumerate(cores)
    }
    plan = inventory.plan({"shards": list(variables), "filters": ["h0"]}, variables, replicas)
    masters = plan["masters"]
    followed = {one: masters[number % len(masters)] for number, one in enumerate(plan["replicas"])}
    rows = [row(one, 1) for one in masters] + [row(one, of=it) for one, it in followed.items()]
    for host in variables if not plan["problems"] else ():
        found = roles.leaving(asked(rows), plan, host, replicas)
        staying = [one for one in masters if one not in found["masters"]]
        following = {one: it for one, it in followed.items() if it in staying and one not in found["replicas"]}
        places = {one: one.split(":")[0] for one in (*masters, *followed)}
        lacking = placing.place(places, staying, following, found["free"], replicas).lacking
        assert bool(lacking) == bool(found["problems"])


def test_failure_domains_count_not_machines() -> None:
    together = PLAN | {"together": ["10.0.0.1,10.0.0.2"]}
    assert roles.leaving(asked(THREE), PLAN, "c", 1)["problems"] == []
    (problem,) = roles.leaving(asked(THREE), together, "c", 1)["problems"]
    assert "2 server(s) in other failure domains" in problem


def test_shards_of_a_dead_machine_are_forgotten() -> None:
    over = row("10.0.0.1:7700", 5462)
    gone = [row(address, answers=False) for address in ("10.0.0.3:7600", "10.0.0.3:7700")]
    rows = [*(one for one in THREE[:4] if not one["address"].startswith("10.0.0.3")), over, *gone]
    found = roles.dead(asked(rows), PLAN, "10.0.0.3")
    assert found == {
        "problems": [],
        "dead": ["10.0.0.3:7600", "10.0.0.3:7700"],
        "staying": ["10.0.0.1:7600", "10.0.0.2:7600", "10.0.0.2:7700", "10.0.0.1:7700"],
    }
    assert roles.dead(asked(THREE), PLAN, "10.0.0.3")["dead"] == []  # a second run, with the same address


TAKEN_OVER = [*THREE[:2], row("10.0.0.2:7700", of="10.0.0.1:7600"), row("10.0.0.1:7700", 5462)]
GONE = [row("10.0.0.3:7600", answers=False), row("10.0.0.3:7700", answers=False)]


def test_servers_started_before_interruption_do_not_interfere() -> None:
    planned = PLAN | {"masters": [*PLAN["masters"][:2], "10.0.0.4:7600"], "replicas": ["10.0.0.4:7700"]}
    for new in (
        [row("10.0.0.4:7600", state="fail"), row("10.0.0.4:7700", state="fail")],
        [row("10.0.0.4:7600", answers=False), row("10.0.0.4:7700", answers=False)],
    ):
        found = roles.dead(asked([*TAKEN_OVER, *GONE, *new]), planned, "10.0.0.3")
        assert (found["problems"], found["dead"]) == ([], ["10.0.0.3:7600", "10.0.0.3:7700"])
        assert not any(address.startswith("10.0.0.4") for address in found["staying"])


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        ([*THREE[:2], *GONE], "5462 of 16384 slots have no owner"),
        ([*TAKEN_OVER, row("10.0.0.9:7600", answers=False)], "who does not answer: 10.0.0.9:7600; correct -e dead"),
        (
            [row("10.0.0.3:7600", answers=False), row("10.0.0.3:7700"), THREE[0]],
            "10.0.0.3:7700 answers: 10.0.0.3 is not dead",
        ),
        ([row("10.0.0.1:7600", 1, state="fail"), row("10.0.0.3:7600", answers=False)], "not all partitions are served"),
        ([], "no other shard answers"),
    ],
)
def test_a_machine_that_cannot_be_forgotten_is_told_why(rows: list[dict[str, Any]], word: str) -> None:
    assert word in "; ".join(roles.dead(asked(rows), PLAN, "10.0.0.3")["problems"])


def test_masters_go_to_the_host_that_has_too_few() -> None:
    rows = [
        row("10.0.0.1:7600", 5461), row("10.0.0.1:7700", 5462), row("10.0.0.2:7600", 5461),
        row("10.0.0.3:7600", of="10.0.0.1:7700"), row("10.0.0.3:7700", of="10.0.0.1:7600"),
    ]  # fmt: skip
    assert roles.crowded(asked(rows), PLAN) == [{"from": "10.0.0.1:7700", "to": "10.0.0.3:7600"}]
    assert roles.crowded(asked(THREE), PLAN) == []


_ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from([f"10.0.0.{host}:7{port}00" for host in (1, 2, 3) for port in (6, 7)]),
        st.sampled_from([0, 5461]),
        st.sampled_from([None, "10.0.0.1:7600", "10.0.0.3:7600"]),
        st.booleans(),
        st.sampled_from(["ok", "fail"]),
    ),
    max_size=6,
)


@given(_ROWS)
def test_whatever_shards_answer_nobody_both_stays_and_leaves(rows: list[dict[str, Any]]) -> None:
    found = roles.leaving(asked(rows), PLAN, "c", 1)
    if not found["problems"]:
        assert not {*found["staying"]} & {*found["masters"], *found["replicas"]}
        assert all(address.startswith("10.0.0.3") for address in (*found["masters"], *found["replicas"]))
    assert all(step["from"] != step["to"] for step in roles.crowded(asked(rows), PLAN))
    roles.dead(asked(rows), PLAN, "10.0.0.3")


@given(st.text(max_size=20))
def test_what_is_no_answer_is_no_crash(text: str) -> None:
    for result in ({"stdout": text}, {"stderr": text}, {}):
        roles.leaving(result, PLAN, "c", 0)
        roles.dead(result, PLAN, "10.0.0.3")
        assert roles.crowded(result, PLAN) == []
