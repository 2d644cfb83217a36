"""What the playbooks decide of machines that come and go, from what the shards answered."""

from __future__ import annotations

import json
from typing import Any

from filter_plugins import shardpulse_growth as growth
from filter_plugins import shardpulse_plan

VARIABLES: dict[str, dict[str, Any]] = {f"h{one}": {"ansible_host": f"10.0.0.{one}"} for one in (1, 2, 3, 4)}
EVERYTHING = {"shards": list(VARIABLES), "filters": ["h1", "h2"], "servers": ["h1"]}
PLAN = shardpulse_plan.plan(EVERYTHING, VARIABLES, 1)
MASTERS, REPLICAS = PLAN["masters"], PLAN["replicas"]


def asked(slots: dict[str, int], following: dict[str, str], silent: tuple[str, ...] = ()) -> dict[str, str]:
    """As the command answers: who owns how many slots, who follows whom, who does not answer."""
    blank = {"answering": True, "cluster_state": "ok", "slots": 0, "role": "master", "replica_of": "", "in_sync": False}
    rows = [{**blank, "address": one, "slots": count} for one, count in slots.items()]
    rows += [{**blank, "address": one, "role": "replica", "replica_of": it, "in_sync": True}
             for one, it in following.items()]  # fmt: skip
    rows += [{**blank, "address": one, "answering": False, "cluster_state": "", "role": ""} for one in silent]
    return {"stdout": json.dumps({"shards": rows})}


WHOLE = asked(
    dict.fromkeys(MASTERS[:3], 1), {REPLICAS[0]: MASTERS[0], REPLICAS[1]: MASTERS[1], REPLICAS[3]: MASTERS[2]}
)


def test_running_shards_are_unchanged_by_new_hosts_and_cores() -> None:
    less = shardpulse_plan.plan({**EVERYTHING, "shards": ["h1", "h2", "h3"]}, VARIABLES, 1)
    more = shardpulse_plan.plan(EVERYTHING, VARIABLES | {"h1": {**VARIABLES["h1"], "redis_shard_cores": [0, 1]}}, 1)
    for host, instances in less["instances"].items():
        assert all(one in PLAN["instances"][host] and one in more["instances"][host] for one in instances)


def test_a_new_machine_brings_a_master_and_a_replica() -> None:
    found = growth.joining(WHOLE, PLAN, [MASTERS[3], REPLICAS[2]])
    assert (found["masters"], found["replicas"], found["half"]) == ([MASTERS[3]], [REPLICAS[2]], [])
    assert len(found["members"]) == 6


def test_what_was_interrupted_is_found() -> None:
    begun = asked(dict.fromkeys(MASTERS[:3], 1) | {MASTERS[3]: 0, REPLICAS[2]: 0}, {})
    found = growth.joining(begun, PLAN, [])
    assert (found["masters"], found["replicas"], found["half"]) == ([], [], [REPLICAS[2]])


def test_servers_of_a_dead_machine_become_replicas() -> None:
    stood_in = dict.fromkeys([*MASTERS[:3], REPLICAS[2]], 1)
    found = growth.joining(asked(stood_in, {}), PLAN, [MASTERS[3], REPLICAS[3]])
    assert (found["masters"], found["replicas"]) == ([], [MASTERS[3], REPLICAS[3]])


def test_who_does_not_serve_or_follow_is_told() -> None:
    good = {"address": "a:1", "answering": True, "cluster_state": "ok", "role": "master", "in_sync": False}
    rows = [
        good,
        good | {"address": "a:2", "answering": False},
        good | {"address": "a:3", "cluster_state": "fail"},
        good | {"address": "a:4", "role": "replica", "replica_of": "a:1"},
        good | {"address": "a:5", "role": "replica", "in_sync": True},
    ]
    told = growth.restless({"stdout": json.dumps({"shards": rows})})
    assert told == ["a:2 does not answer", "a:3 says that the cluster is fail", "a:4 is not in sync with a:1"]
    assert growth.restless({"stdout": "", "stderr": "no shard answers: refused"}) == ["no shard answers: refused"]


def test_missing_and_misplaced_replicas_are_reported() -> None:
    whole = asked(dict.fromkeys(MASTERS, 1), {REPLICAS[one]: MASTERS[one] for one in range(4)})
    assert growth.misplaced(whole, PLAN, 1) == []
    assert len(growth.misplaced(whole, PLAN, "2")) == len(MASTERS)
    alone = asked(dict.fromkeys(MASTERS, 1), {REPLICAS[one]: MASTERS[one] for one in range(3)})
    assert growth.misplaced(alone, PLAN, 1) == [
        f"{MASTERS[3]} has 0 of 1 replicas in sync; site.yml gives it what it lacks"
    ]
    beside = asked({"10.0.0.1:7600": 1}, {"10.0.0.1:7700": "10.0.0.1:7600", "10.0.0.2:7700": "10.0.0.1:7600"})
    told = "lies in the failure domain of its master 10.0.0.1:7600; site.yml moves it"
    assert growth.misplaced(beside, PLAN, 1) == [f"10.0.0.1:7700 {told}"]
    rack = {"together": ["10.0.0.1,10.0.0.2"]}
    assert growth.misplaced(beside, rack, 1) == [f"10.0.0.1:7700 {told}", f"10.0.0.2:7700 {told}"]
    assert growth.misplaced(asked(dict.fromkeys(MASTERS, 1), {}), PLAN, 0) == []
    assert growth.misplaced({"stdout": "", "stderr": "refused"}, PLAN, 1) == ["refused"]


def test_replicas_that_run_something_else_come_first() -> None:
    units = {f"shardpulse-shard@{port}.service": {"stale": port != 7601} for port in (7600, 7601, 7700)}
    instances = [{"port": 7600, "role": "master"}, {"port": 7601, "role": "master"}, {"port": 7700, "role": "replica"}]
    assert growth.stale({"units": units}, instances) == [7700, 7600]
    assert growth.stale({"units": {}}, instances) == []


def test_a_silent_probe_counts_only_where_the_inventory_has_it() -> None:
    silent = {"kind": "stale", "about": "host dead-1", "text": "its probe has been silent for 241 s"}
    note = {"kind": "note", "about": "host web-1", "text": "drops frames: the pipeline is overloaded"}
    down = {"kind": "down", "about": "shard a:1", "text": "does not answer"}

    def told(*findings: dict[str, str]) -> list[str]:
        return growth.unsettled({"stdout": json.dumps({"findings": findings})}, ["web-1"])

    assert told(silent, note) == []
    assert told(silent | {"about": "host web-1"}) == ["host web-1: its probe has been silent for 241 s"]
    assert told(down) == ["shard a:1: does not answer"]
    assert growth.unsettled({"stdout": "", "stderr": "no shard answers"}, []) == ["no shard answers"]
    assert growth.unsettled({"stdout": "[]"}, []) == ["`shardpulse status` does not answer"]
