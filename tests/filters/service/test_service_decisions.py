"""From frames through the real filter to hot hosts, moves and recent values over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acquisition.config.inputs import Inputs
from acquisition.link.cluster import Cluster
from acquisition.model import codes
from acquisition.model.identity import host_id
from acquisition.shards.servers.launch import Shards
from tests.support.data_center import Guest, Machine
from tests.support.page_scene import Data
from tests.support.serving import Events, Reply, Serving


@pytest.fixture
def service(cluster: Cluster, shards: Shards, tmp_path: Path) -> Iterator[Serving]:
    machines = [
        Machine(cluster, "busy", [Guest("database", 5.5, 8), Guest("web", 2.0, 2)]),
        Machine(cluster, "calm", [Guest("mail", 0.2, 2)]),
        Machine(cluster, "third", [Guest("twin", 0.2, 2), Guest("twin", 0.1, 2, stable="uuid-other-twin")]),
    ]
    with Data(cluster, machines), Serving(tmp_path, shards.addresses) as serving:
        yield serving


def has_move(reply: Reply) -> bool:
    return reply.status == 200 and bool(reply.json["moves"])


def test_a_scheduler_asks_acts_and_reports(service: Serving) -> None:
    moves = service.until("/v1/moves", has_move).json
    hot = service.ask("/v1/hot").json
    assert [row["host"] for row in hot["hot"]] == ["busy"]
    assert hot["hot"][0]["figures"][0]["validity"] == "VALID"
    assert [row["host"] for row in service.ask("/v1/hot?outcome=not_hot&fields=host").json["not_hot"]] == [
        "calm",
        "third",
    ]
    (move,) = moves["moves"]
    assert (move["source"]["host"], move["destination"]["host"]) == ("busy", "calm")
    assert all(move["why"][part]["reason"] for part in ("host", "vm", "destination", "cost"))
    for vm in (move["vm"]["id"], move["vm"]["id"].upper()):
        found = service.ask(f"/v1/entities/{vm}?fields=mean").json
        assert (found["entity"]["stable"], found["host"]) == (move["vm"]["id"], "busy")
        assert service.ask(f"/v1/entities/{vm}/recent").json["id"] == found["entity"]["id"]
    assert service.ask("/v1/entities/database").status == 404  # by id: a name may be that of several
    assert service.ask("/v1/hot?rule=sandpiper").json["hot"][0]["host"] == "busy"  # needs recent values
    assert service.ask("/v1/hot?rule=neat_mad").status == 200
    report = service.report(vm=move["vm"]["id"], source="busy", destination="calm", phase="started")
    assert report.status == 200
    after = service.until("/v1/moves", lambda reply: not reply.json["moves"]).json
    assert after["refused"]
    assert "migrat" in json.dumps(after["refused"])


def test_a_place_for_a_new_vm_is_found(service: Serving) -> None:
    service.until("/v1/moves", has_move)
    found = service.ask("/v1/place?vcpus=2&memory=4294967296&use=50").json
    assert (found["vm"]["cpu_cores"], found["blind"], found["remedy"]) == (1.0, "", "")
    assert [row["host"] for row in found["places"]] == ["third"]
    assert {figure["name"] for figure in found["places"][0]["figures"]} >= {"cpu_busy_ratio with the VM"}
    refused = {row["host"]: row["reason"] for row in found["refused"]}
    assert refused["busy"].startswith("it is hot: ")
    assert refused["calm"].startswith("cpu_busy_ratio would be 0.8")  # the database is to move there
    large = service.ask("/v1/place?vcpus=8&memory=4294967296").json
    assert large["places"] == []
    assert large["remedy"].startswith("third lacks least: ")
    grouped = service.ask("/v1/place?vcpus=1&memory=1&vm_label=group=gpu").json
    assert {row["host"]: row["reason"] for row in grouped["refused"]}["third"] == "it is not in group gpu"
    assert service.ask("/v1/place?vcpus=2").json["detail"] == "memory is required"
    assert service.ask("/v1/place?vcpus=0&memory=1").status == 400


def test_vms_leave_a_host_in_maintenance(cluster: Cluster, shards: Shards, tmp_path: Path) -> None:
    machines = [Machine(cluster, "old", [Guest("mail", 0.2, 2)]), Machine(cluster, "calm", [Guest("web", 0.5, 2)])]
    decisions = '[decisions.hosts]\n"old" = { maintenance = true }\n'
    with Data(cluster, machines), Serving(tmp_path, shards.addresses, decisions) as serving:
        found = serving.until("/v1/moves", has_move).json
        (move,) = found["moves"]
        assert (move["vm"]["name"], move["destination"]["host"], move["cause"]) == ("mail", "calm", "maintenance")
        assert move["migration_seconds"] > 0.0
        assert serving.ask("/v1/place?vcpus=1&memory=1").json["refused"][0]["reason"] == "it is in maintenance"


def test_a_verdict_does_not_wait_for_the_tick(cluster: Cluster, shards: Shards, tmp_path: Path) -> None:
    """Of each tick there is one event, and another one where a verdict changes before the next."""
    rising = Machine(cluster, "rising", [Guest("database", 5.5, 8)])
    rising.busy = 0.5
    with Data(cluster, [rising, Machine(cluster, "calm")]), Serving(tmp_path, shards.addresses) as serving:
        serving.until("/v1/hot?outcome=not_hot", lambda reply: reply.status == 200 and len(reply.json["not_hot"]) == 2)
        ticks: dict[str, list[Any]] = {}
        with closing(Events(serving, "/v1/stream?topic=hot")) as stream:
            for _ in range(300):
                event = stream.next()
                if event["event"] == "hot":
                    hot = [row["host"] for row in json.loads(event["data"])["hot"]]
                    ticks.setdefault(event["id"], []).append(hot)
                    rising.busy = 0.2 if hot else 0.97  # so that it changes again and again: a tick is first at times
                    if [] in ticks[event["id"]] and ["rising"] in ticks[event["id"]]:
                        return
    raise AssertionError(f"no verdict has changed between two ticks: {ticks}")


def test_reports_are_checked_against_the_places_of_vms(service: Serving) -> None:
    service.until("/v1/moves", has_move)
    for said, status, words in (
        ({"vm": "nobody"}, 404, "unknown VM 'nobody'"),
        ({"source": "calm", "destination": "busy"}, 409, "database is on busy, not on calm"),
        ({"phase": "finished", "source": "calm", "destination": "third"}, 409, "is on busy, not on calm or third"),
        ({"vm": "twin"}, 409, "2 VMs are named 'twin': give the id (uuid-other-twin, uuid-twin)"),
    ):
        reply = service.report(
            **{"vm": "uuid-database", "source": "busy", "destination": "calm", "phase": "started", **said}
        )
        assert (reply.status, words in reply.json["detail"]) == (status, True), reply
    assert service.ask("/v1/migrations").json["migrations"] == []


def test_migrations_are_reported_by_name_and_contradictions_refused(service: Serving) -> None:
    service.until("/v1/moves", has_move)
    way = {"source": "busy", "destination": "calm"}
    started = service.report(vm="database", phase="started", **way)
    assert (started.status, started.json["in_progress"], started.json["vm"]) == (200, True, "uuid-database")
    ids = [f"{host_id(name):016x}" for name in ("busy", "calm")]
    assert started.json["source"] == {"host": "busy", "id": ids[0]}
    assert started.json["destination"] == {"host": "calm", "id": ids[1]}
    assert service.report(vm="UUID-DATABASE", phase="started", **way).status == 200  # its answer may have been lost
    other = service.report(vm="database", phase="finished", source="busy", destination="third")
    assert (other.status, other.headers["content-type"]) == (409, "application/problem+json")
    assert "uuid-database is migrating from busy to calm" in other.json["detail"]
    service.until("/v1/moves", lambda reply: not has_move(reply))
    assert service.report(vm="uuid-database", phase="failed", **way).json["outcome"] == "failed"
    (known,) = service.ask("/v1/migrations").json["migrations"]
    assert (known["vm"], known["source"]["host"]) == ("uuid-database", "busy")


def test_inputs_places_and_recent_values(service: Serving) -> None:
    service.until("/v1/moves", has_move)
    busy = service.ask("/v1/hosts/busy").json["host"]
    reading = busy["readings"]["cpu_busy_ratio"]
    assert reading["mean"] == pytest.approx(7.5 / 8, abs=1e-3)
    assert (reading["inputs"]["warming"], reading["inputs"]["above"]) == (False, Inputs().counted_seconds)
    database = next(entity for entity in busy["entities"] if entity["name"] == "database")
    assert (database["shadow"], database["readings"]["memory_resident_bytes"]["inputs"]) == (False, None)
    found = service.ask(f"/v1/entities/{database['id']}").json
    assert (found["placement"]["state"], found["placement"]["host"]) == ("running", "busy")
    inputs = found["entity"]["readings"]["cpu_ratio"]["inputs"]
    assert (inputs["ordered"], inputs["median"], inputs["lowest"], inputs["above"]) == (False, None, 5.5, 8)
    recent = service.ask(f"/v1/entities/{database['id']}/recent").json
    series = recent["metrics"]["cpu_ratio"]
    assert len(series["tick"]) >= 30
    assert series["tick"] == sorted(series["tick"])
    assert set(series["raw"]) == {5.5}
    assert set(series["validity"]) == {"VALID"}
    assert service.ask(f"/v1/entities/{database['id']}/recent?metric=cpu_rati").status == 404
    only = service.ask("/v1/hosts?metric=cpu_busy_ratio&fields=mean").json["hosts"]
    assert [set(host["readings"]) for host in only] == [{"cpu_busy_ratio"}] * 3


def test_a_metric_that_went_missing_has_no_old_average(cluster: Cluster, shards: Shards, tmp_path: Path) -> None:
    machines = [Machine(cluster, name, [Guest(name, 4.0, 4)]) for name in ("whole", "torn")]
    with Data(cluster, machines), Serving(tmp_path, shards.addresses) as service:
        load = "/v1/hosts?fields=mean,validity,stale_seconds&metric=cpu_busy_ratio,cpu_idle_ratio"

        def readings(reply: Reply) -> dict[str, Any]:
            return {host["name"]: host["readings"] for host in reply.json.get("hosts", ())}

        def idle(reply: Reply) -> dict[str, tuple[bool, str]]:
            found = {name: of["cpu_idle_ratio"] for name, of in readings(reply).items() if "cpu_idle_ratio" in of}
            return {name: (each["mean"] is not None, each["validity"]) for name, each in found.items()}

        service.until(load, lambda reply: idle(reply) == {"whole": (True, "VALID"), "torn": (True, "VALID")})
        machines[1].codes = np.array([[codes.MISSING] + [codes.VALID] * 7], np.uint8)
        reply = service.until(load, lambda reply: idle(reply) == {"whole": (True, "VALID"), "torn": (False, "MISSING")})
        for reading in readings(reply)["torn"].values():
            assert (reading["mean"], reading["validity"]) == (None, "MISSING")
            assert reading["stale_seconds"] > 3.0
        names = service.ask("/v1/roster").json["names"]
        assert names == ["torn", "whole"]
        service.until("/v1/heat", lambda reply: reply.json.get("cpu") == [None, 500])

        def is_absent(reply: Reply) -> bool:
            text = reply.body.decode()
            series = [f'shardpulse_host_cpu_{metric}_ratio{{host="%s"}}' for metric in ("busy", "idle")]
            return all(one % "whole" in text and one % "torn" not in text for one in series)

        service.until("/metrics", is_absent)
        service.until("/v1/hot?host=torn", lambda reply: "MISSING" in reply.body.decode())
        machines[0].codes = machines[1].codes
        blind = "the rule abstains on all 2 hosts"
        for path in ("/v1/hot", "/v1/heat"):  # hosts are seen, and nobody is judged
            service.until(path, lambda reply: blind in reply.json.get("blind", ""))


def test_copies_of_a_migrating_vm_are_marked(cluster: Cluster, shards: Shards, tmp_path: Path) -> None:
    incoming = Guest("a", 0.5, 4, {"incoming": "tcp:0:49152", "started": "500"})
    machines = [
        Machine(cluster, "from", [Guest("a", 2.0, 4), Guest("b", 1.0, 1)]),
        Machine(cluster, "to", [incoming, Guest("c", 1.0, 1)]),
    ]
    with Data(cluster, machines), Serving(tmp_path, shards.addresses) as service:
        path = "/v1/snapshot?set=vms&metric=cpu_ratio&fields=mean&state=current"
        blocks = service.until(path, lambda reply: len(reply.json.get("blocks", ())) == 2).json["blocks"]
        rows = [
            (block["host"], entity["name"], entity["shadow"], entity["migrating"], mean)
            for block in blocks
            for entity, (mean,) in zip(block["entities"], block["mean"], strict=True)
        ]
        assert sorted(rows) == [
            ("from", "a", False, True, 2.0), ("from", "b", False, False, 1.0),
            ("to", "a", True, True, 0.5), ("to", "c", False, False, 1.0),
        ]  # fmt: skip
        marked = service.ask("/v1/hosts/to?set=vms&fields=mean").json["host"]["entities"]
        assert {each["name"]: each["shadow"] for each in marked} == {"a": True, "c": False}
        assert service.ask("/v1/entities/uuid-a").json["host"] == "from"
