"""A resource of the query service is one file and one registration: wherever users look they find it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.shards.servers.launch import Shards
from tests.extending.conftest import Toys
from tests.support.other_package import shardpulse
from tests.support.serving import Events, Serving


@pytest.fixture
def service(toys: Toys, hosts: str, shards: Shards, tmp_path: Path) -> Iterator[Serving]:
    toys.add("resource")
    with Serving(tmp_path, shards.addresses) as serving:
        yield serving.ready()


def test_it_answers_and_checks_what_is_asked(service: Serving) -> None:
    found = service.ask("/v1/toy")
    assert (found.json["hosts"], found.headers["content-type"]) == (3, "application/json")
    assert service.ask("/v1/toy", headers={"If-None-Match": found.headers["etag"]}).status in (200, 304)
    assert service.ask("/v1/toy?state=down").json["hosts"] == 0
    wrong = service.ask("/v1/toy?state=asleep")
    assert (wrong.status, wrong.json["parameter"]) == (400, "state")
    assert service.ask("/v1/toy", "POST").headers["allow"].split(", ") in (["GET", "HEAD"], ["HEAD", "GET"])


def test_description_and_documentation_list_it(service: Serving) -> None:
    found = service.ask("/openapi.json").json
    operation = found["paths"]["/v1/toy"]["get"]
    assert (operation["operationId"], operation["parameters"][0]["name"]) == ("toy", "state")
    assert found["components"]["schemas"]["CountDocument"]["description"] == "How many hosts there are."
    row = "| `/v1/toy` | How many toys there are; also a topic of the stream | `state=` |"
    assert row in shardpulse(module="filters.service.resources")


def test_the_stream_tells_of_it(service: Serving) -> None:
    events = Events(service, "/v1/stream?topic=toy")
    told = next(event for event in iter(events.next, {}) if event["event"] == "toy")
    events.close()
    assert json.loads(told["data"])["hosts"] == 3
