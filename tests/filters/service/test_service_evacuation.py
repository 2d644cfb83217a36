"""An operator empties a host, and looks for a place: from labels to answers, through real parts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_TEMPORARY
from acquisition.link.cluster import Cluster
from acquisition.model import codes
from acquisition.shards.servers.launch import Shards
from tests.support.data_center import Guest, Machine
from tests.support.page_scene import Data
from tests.support.serving import Reply, Serving

Capture = pytest.CaptureFixture[str]
DECISIONS = """
[decisions.policy]
moves_per_host = 9
settle_seconds = 0
[decisions.hosts]
old = { maintenance = true }
gpu = { groups = "gpu" }
[decisions.vms]
vpn = { pinned = true }
"web-*" = { anti_affinity = "web" }
render = { prefer_group = "gpu" }
"""
PLACE = ("place", "--vcpus", "2", "--memory", "4GiB")


def query(directory: Path, capsys: Capture, *words: str, code: int = 0) -> str:
    """What ``shardpulse query`` prints with the configuration of the service."""
    capsys.readouterr()
    assert shardpulse(["query", *words, "--config", str(directory / "shardpulse.toml")]) == code
    return capsys.readouterr().out


def moved(reply: Reply) -> dict[str, str]:
    """Destinations of VMs by name."""
    return {move["vm"]["name"]: move["destination"]["host"] for move in reply.json.get("moves") or ()}


def reasons(document: Any) -> dict[str, str]:
    """Why not, by VM or host."""
    return {(row.get("vm") or {}).get("name", row["host"]): row["reason"] for row in document["refused"]}


def test_plan_empties_a_host_and_says_when(cluster: Cluster, shards: Shards, tmp_path: Path, capsys: Capture) -> None:
    old = Machine(cluster, "old", [Guest("mail", 0.2, 2), Guest("web-1", 0.4, 2)])
    one = Machine(cluster, "one", [Guest("web-2", 0.1, 2)])
    gpu = Machine(cluster, "gpu", [Guest("render-0", 0.8, 2)])
    with Data(cluster, [old, one, gpu]), Serving(tmp_path, shards.addresses, DECISIONS) as serving:
        found = serving.until("/v1/moves", lambda reply: len(moved(reply)) == 2)
        assert moved(found) == {"mail": "one", "web-1": "gpu"}  # web-2 is on one, which is idler
        assert {move["cause"] for move in found.json["moves"]} == {"maintenance"}
        assert (found.json["hot"], found.json["maintenance"]) == ([], ["old"])
        text = query(tmp_path, capsys, "moves")
        assert "0 hot hosts, 1 in maintenance, 2 moves proposed" in text
        assert "it is in maintenance, VMs to move: 2" in text
        assert "cost: at least " in text
        for name, machine in (("mail", one), ("web-1", gpu)):
            way = {"vm": f"uuid-{name}", "source": "old", "destination": machine.name}
            assert serving.report(phase="started", **way).status == 200
            machine.guests = (*machine.guests, next(each for each in old.guests if each.name == name))
            old.guests = tuple(each for each in old.guests if each.name != name)
            for each in (old, machine):
                each.send_tables(time.time())
            serving.until(f"/v1/entities/uuid-{name}", lambda reply, to=machine: reply.json.get("host") == to.name)
            assert serving.report(phase="finished", **way).status == 200
        empty = "it is in maintenance and reports no VMs"
        serving.until("/v1/moves", lambda reply: reasons(reply.json) == {"old": empty})
        assert f"not moved: old: {empty}" in query(tmp_path, capsys, "moves")


def test_what_cannot_leave_is_named_with_what_would_help(
    cluster: Cluster, shards: Shards, tmp_path: Path, capsys: Capture
) -> None:
    old = Machine(cluster, "old", [Guest("vpn", 0.1, 1), Guest("large", 5.0, 8)])
    full = Machine(cluster, "full", [Guest("web-1", 4.0, 2)])
    with Data(cluster, [old, full]), Serving(tmp_path, shards.addresses, DECISIONS) as serving:
        found = serving.until("/v1/moves", lambda reply: reply.status == 200 and "old" in reasons(reply.json)).json
        why = reasons(found)
        assert found["moves"] == []
        assert why["vpn"] == "it is pinned"
        assert why["large"].startswith("no host can take it (full: cpu_busy_ratio would be 1.12")
        assert "; full lacks least: " in why["large"]
        assert why["old"] == "it is in maintenance, 2 of its VMs cannot leave now: vpn, large"
        text = query(tmp_path, capsys, "moves")
        assert "not moved: vpn of old: it is pinned" in text
        assert f"not moved: old: {why['old']}" in text


def test_a_place_by_labels_over_http_and_in_a_shell(
    cluster: Cluster, shards: Shards, tmp_path: Path, capsys: Capture
) -> None:
    machines = [
        Machine(cluster, "old"), Machine(cluster, "one", [Guest("web-1", 0.1, 2)]),
        Machine(cluster, "gpu", [Guest("render", 1.6, 2)]), Machine(cluster, "busy", [Guest("db", 7.8, 8)]),
    ]  # fmt: skip
    with Data(cluster, machines), Serving(tmp_path, shards.addresses, DECISIONS) as serving:
        path = "/v1/place?vcpus=2&memory=4294967296"
        for labels, hosts in (
            ((), ["one", "gpu"]), (("anti_affinity=web",), ["gpu"]), (("affinity=none",), ["one", "gpu"]),
            (("prefer_group=gpu",), ["gpu", "one"]), (("not_group=gpu", "anti_affinity=web"), []),
        ):  # fmt: skip
            asked = path + "".join(f"&vm_label={label}" for label in labels)
            found = serving.until(asked, lambda reply: reply.status == 200 and bool(reply.json["refused"])).json
            assert [row["host"] for row in found["places"]] == hosts, labels
            said = json.loads(query(tmp_path, capsys, *PLACE, "--json", *(["--vm-label", *labels] if labels else [])))
            assert [row["host"] for row in said["places"]] == hosts, labels
            assert reasons(said)["old"] == reasons(found)["old"] == "it is in maintenance"
            assert reasons(said)["busy"].startswith("it is hot: ")
        text = query(tmp_path, capsys, *PLACE, "--vm-label", "anti_affinity=web")
        assert "new VM, 2 vCPUs expected to use 200% of a core, 4.00 GiB: 1 host of 4 can take it" in text
        assert "not on: one: web-1 of anti-affinity web is there" in text


def test_blind_pipeline_gives_no_plan_and_no_place(
    cluster: Cluster, shards: Shards, tmp_path: Path, capsys: Capture
) -> None:
    machines = [Machine(cluster, name, [Guest(name, 4.0, 4)]) for name in ("old", "one")]
    for machine in machines:
        machine.codes = np.array([[codes.MISSING] + [codes.VALID] * 7], np.uint8)
    with Data(cluster, machines), Serving(tmp_path, shards.addresses, DECISIONS) as serving:
        blind = "the rule abstains on all 2 hosts"
        for path, lists in (("/v1/moves", ("moves", "hot")), ("/v1/place?vcpus=2&memory=1", ("places",))):
            found = serving.until(path, lambda reply: blind in reply.json.get("blind", "")).json
            assert [found[name] for name in (*lists, "refused")] == [None] * (len(lists) + 1)
        for words, what in ((("moves",), "no moves are proposed: "), (PLACE, "no host is proposed: ")):
            assert f"{what}{blind}" in query(tmp_path, capsys, *words, code=EXIT_TEMPORARY)
