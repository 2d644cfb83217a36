"""Hosts and VMs chosen by their labels, and the latest reading beside the coherent one, over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.config.loader import load
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers.launch import Shards
from acquisition.wire.position import Position
from acquisition.wire.table import Entity
from filters.judging.labels import LabelSelection
from filters.service.http.parameters import ENTITY_LABEL, LABEL, parse
from filters.service.http.problem import Problem
from filters.service.ticks.on_demand import LatestReading
from filters.service.ticks.tick_cache import NewestCache, TickCache
from tests.support.emptied import emptied
from tests.support.scene import METRICS, Scene, record
from tests.support.serving import Feeding, Serving
from tests.support.waiting import eventually

PROBLEM = "application/problem+json"
DECISIONS = """
[decisions.hosts]
"web-*" = { rack = "r1" }
db = { rack = "r2", cordoned = true }
[decisions.vms]
shop = { tier = "gold" }
"""
HOSTS = ("web-1", "web-2", "db")


def host_row(host: str) -> Entity:
    sent = {"zone": "north", "rack": "unknown"} if host == "web-1" else {}
    return Entity(entity_id("host", host, "boot"), "host", host, "boot", host, sent)


def guests(host: str) -> list[Entity]:
    rows = [(f"uuid-{host}-1", "shop", {}), (f"uuid-{host}-2", "cache", {"tier": "silver"})]
    return [Entity(entity_id("vm", uuid, "1"), "vm", uuid, "1", name, sent) for uuid, name, sent in rows]


def put(scene: Scene, host: str, resource_set: str, rows: list[Entity], ticks: list[int]) -> None:
    number, set_number = host_id(host), resource_set_id(resource_set)
    for tick in ticks:
        mean = np.full((len(rows), len(METRICS)), float(tick % 1000)) + np.arange(len(rows))[:, None]
        data = record(number, set_number, [row.id for row in rows], mean, tick, wall=tick + 0.5)
        scene.record(host, resource_set, data, tick)
    scene.position(host, resource_set, Position(5, ticks[-1], ticks[-1], ticks[-1] + 0.5, 1.0, applied=9))
    scene.names(host, resource_set, rows)


class Labelled(Feeding):
    """Every host's own figures and two VMs on each, tick after tick until it is ended."""

    def begin(self) -> None:
        """No host has been silent."""

    def feed(self) -> None:
        now = int(time.time())
        for host in HOSTS:
            put(self.scene, host, "host", [host_row(host)], [now - 2, now - 1, now])
            put(self.scene, host, "vms", guests(host), [now - 2, now - 1, now])


@pytest.fixture(scope="module")
def feeding(shards: Shards) -> Iterator[Feeding]:
    with emptied(shards) as cluster, Labelled(cluster) as running:
        yield running


@pytest.fixture(scope="module")
def service(shards: Shards, feeding: Feeding, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("labels"), shards.addresses, DECISIONS) as serving:
        serving.until("/v1/hosts?state=current", lambda reply: reply.status == 200 and len(reply.json["hosts"]) == 3)
        yield serving
        assert "Traceback" not in serving.log.read_text()


def test_labels_are_taken_at_sighup_and_nothing_else_of_decisions(
    shards: Shards, feeding: Feeding, tmp_path: Path
) -> None:
    with Serving(tmp_path, shards.addresses, DECISIONS) as service:
        service.until("/v1/hosts?state=current&label=cordoned", lambda reply: reply.status == 200)
        config = tmp_path / "shardpulse.toml"
        config.write_text(f"{config.read_text()}[decisions.hosts.web-1]\nmaintenance = true\n")
        os.kill(service.process.pid, signal.SIGHUP)
        service.until("/v1/moves", lambda reply: reply.json.get("maintenance") == ["web-1"])
        assert found(service, "/v1/hosts?label=maintenance=true") == ["web-1"]
        config.write_text(config.read_text().replace("maintenance = true", "maintenance = 1"))
        os.kill(service.process.pid, signal.SIGHUP)
        eventually(lambda: "unchanged" in service.log.read_text())
        assert found(service, "/v1/hosts?label=maintenance=true") == ["web-1"]


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


def found(service: Serving, path: str) -> list[str]:
    return names(service.ask(path).json["hosts"])


def test_hosts_by_label(service: Serving) -> None:
    assert found(service, "/v1/hosts?label=rack=r1") == ["web-1", "web-2"]
    assert found(service, "/v1/hosts?label=rack=r*&label=cordoned=true") == ["db"]
    assert found(service, "/v1/hosts?label=rack=r1&label=rack=r2") == ["db", "web-1", "web-2"]
    assert found(service, "/v1/hosts?label=zone") == ["web-1"]  # sent by the probe; its rack is overruled
    assert found(service, "/v1/hosts?label=rack=r1&host=*-2") == ["web-2"]
    (host,) = service.ask("/v1/hosts?label=zone=north&fields=labels").json["hosts"]
    assert host["labels"] == {"zone": "north", "rack": "r1"}


def test_vms_by_label(service: Serving) -> None:
    gold = service.ask("/v1/hosts/db?entity_label=tier=gold&fields=mean").json["host"]["entities"]
    assert [(row["name"], row["labels"]) for row in gold] == [("shop", {"tier": "gold"})]
    blocks = service.ask("/v1/snapshot?entity_label=tier=silver&label=rack=r1&fields=mean").json["blocks"]
    assert [(block["host"], names(block["entities"])) for block in blocks] == [
        ("web-1", ["cache"]),
        ("web-2", ["cache"]),
    ]
    of_hosts = service.ask("/v1/snapshot?entity_label=zone&label=rack=r1&fields=mean")
    assert of_hosts.status == 404  # a host's label is none of its VMs


def test_the_busiest_of_each_host(service: Serving) -> None:
    busiest = service.ask("/v1/hosts/db?top=1&fields=mean").json["host"]["entities"]
    assert names(busiest) == ["cache"]
    by_memory = service.ask("/v1/snapshot?set=vms&host=db&metric=memory*&top=2&fields=mean").json["blocks"]
    assert [names(block["entities"]) for block in by_memory] == [["cache", "shop"]]
    assert by_memory[0]["mean"][0] > by_memory[0]["mean"][1]
    chosen = service.ask("/v1/hosts/db?top=1&entity_label=tier=gold&fields=mean").json["host"]["entities"]
    assert names(chosen) == ["shop"]
    assert service.ask("/v1/hosts/db?top=0").status == 400


def test_decisions_by_label(service: Serving) -> None:
    hot = service.ask("/v1/hot?label=rack=r2").json
    assert [row["host"] for row in hot["abstained"]] == ["db"]
    assert hot["hosts"] == 3
    moves = service.ask("/v1/moves?label=rack=r2&entity_label=tier=gold&host=db")
    assert (moves.status, moves.json["moves"]) == (200, None)


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/v1/hosts?label=", 400, "1 to 128"),
        ("/v1/hosts?label==r1", 400, "NAME=VALUE"),
        ("/v1/hosts?label=ra*=r1", 400, "NAME=VALUE"),
        ("/v1/hosts?label=a%20b=r1", 400, "NAME=VALUE"),
        ("/v1/hosts?label=rack=" + "*a" * 9, 400, "wildcards"),
        ("/v1/hosts?label=rack=%00", 400, "control"),
        ("/v1/hosts?label=" + "x" * 129, 400, "1 to 128"),
        ("/v1/hosts?" + "&".join(["label=rack=r1"] * 9), 400, "more than 8 values"),
        ("/v1/hosts?label=rakc=r1", 404, "did you mean rack"),
        ("/v1/hosts?label=rack=r9", 404, "'r1', 'r2'"),
        ("/v1/hot?label=rakc", 404, "rack"),
        ("/v1/moves?entity_label=tier=bronze", 404, "'gold', 'silver'"),
        ("/v1/snapshot?entity_label=rack", 404, "nothing has a label"),
        ("/v1/hosts?entity_label=tier", 400, "unknown parameter"),
        ("/v1/hosts?reading=newest", 400, "latest"),
        ("/v1/hosts?reading=latest&reading=coherent", 400, "more than one value"),
        ("/v1/hot?reading=latest", 400, "unknown parameter"),
    ],
)
def test_broken_selectors(service: Serving, path: str, status: int, says: str) -> None:
    reply = service.ask(path)
    assert (reply.status, reply.headers["content-type"]) == (status, PROBLEM), reply
    assert says in reply.json["detail"]
    assert reply.json["parameter"] in ("label", "entity_label", "reading")


def test_the_latest_reading_is_fresher(service: Serving) -> None:
    for _ in range(3):  # a tick may end in between
        coherent = service.ask("/v1/snapshot?set=vms&fields=mean").json
        latest = service.ask("/v1/snapshot?set=vms&fields=mean&reading=latest").json
        pairs = list(zip(coherent["blocks"], latest["blocks"], strict=True))
        if all(new["tick"] > old["tick"] for old, new in pairs):
            break
    assert (coherent["reading"], latest["reading"]) == ("coherent", "latest")
    assert all(new["tick"] > old["tick"] for old, new in pairs)
    assert all(new["age_seconds"] < old["age_seconds"] for old, new in pairs)
    assert all(new["mean"][0][0] == new["tick"] % 1000 for _, new in pairs)


def test_every_resource_that_has_it(service: Serving) -> None:
    one = f"{guests('db')[0].id:016x}"
    for path in ("/v1/hosts", "/v1/hosts/db", f"/v1/entities/{one}"):
        assert service.ask(f"{path}?reading=latest").json["reading"] == "latest"
        assert service.ask(f"{path}?reading=coherent").json["reading"] == "coherent"
    entity = service.ask(f"/v1/entities/{one}?reading=latest&fields=mean").json["entity"]
    assert entity["labels"] == {"tier": "gold"}
    assert found(service, "/v1/hosts?reading=latest&label=rack=r2") == ["db"]


def test_latest_readings_are_shared(service: Serving, shards: Shards, tmp_path: Path) -> None:
    config = tmp_path / "shardpulse.toml"
    listed = ", ".join(f'"{address}"' for address in shards.addresses)
    config.write_text(f"[shards]\naddresses = [{listed}]\n")
    reading = LatestReading(load(str(config)), _answering())

    async def ask() -> list[TickCache]:
        return await asyncio.gather(*(reading.current() for _ in range(50)))

    caches = asyncio.run(ask())
    reading.close()
    assert len({id(cache) for cache in caches}) == 1


def _answering() -> NewestCache:
    from acquisition.snapshot import Snapshot

    newest = NewestCache(60.0)
    newest.publish(TickCache(1, "test", Snapshot("coherent", time.time(), [], ())))
    return newest


def test_an_unchanged_latest_reading_costs_nothing(service: Serving, feeding: Feeding) -> None:
    """Runs last: nothing new comes after it."""
    path = "/v1/hosts?reading=latest&fields=mean"
    first = service.ask(path)
    service.until(path, lambda reply: reply.headers["etag"] != first.headers["etag"])
    feeding.end()
    time.sleep(0.3)  # the answer that others share is as old as that
    for _ in range(6):  # a host may become late in between
        last = service.ask(path)
        time.sleep(0.3)
        again = service.ask(path, headers={"If-None-Match": last.headers["etag"]})
        if again.status == 304:
            break
    assert (again.status, again.body) == (304, b"")
    assert service.ask("/v1/hosts").headers["etag"] != last.headers["etag"]


WORDS = st.sampled_from(["rack", "r1", "=", "*", "?", "[", "!", " ", "\t", "]", "é", "=="])


@given(st.lists(st.one_of(WORDS, st.text(max_size=4)), max_size=8).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_selector_is_read_or_refused(text: str) -> None:
    from urllib.parse import quote

    query = f"label={quote(text, errors='replace')}".encode()
    refused: Problem | None = None
    values: dict[str, tuple[str, ...]] = {}
    try:
        values = parse(query, (LABEL, ENTITY_LABEL), 10_000)
    except Problem as problem:
        refused = problem
    assert (refused is None) == bool(values)
    assert refused is None or refused.status == 400
    chosen = LabelSelection.of(values.get("label", ()))
    assert chosen.takes({"rack": "r1"}) in (True, False)
    assert chosen.takes({}) == (refused is not None)


def test_what_a_selection_takes() -> None:
    rack, both = LabelSelection.of(["rack=r1", "rack=r2"]), LabelSelection.of(["rack=r?", "ssd"])
    assert rack.takes({"rack": "r2"})
    assert not rack.takes({"rack": "r3"})
    assert both.takes({"rack": "r9", "ssd": ""})
    assert not both.takes({"rack": "r9"})
    assert LabelSelection().takes({})
    assert not LabelSelection.of(["rack="]).takes({"rack": "r1"})
    assert LabelSelection.of(["note=a=b"]).takes({"note": "a=b"})
