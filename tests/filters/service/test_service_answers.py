"""What the service answers: documents, tags, compression, selections, problems, a stream. One service for all."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from acquisition.model.identity import host_id
from acquisition.shards.servers.launch import Shards
from tests.support.emptied import emptied
from tests.support.serving import HOSTS, SILENT, Events, Feeding, Serving
from tests.support.waiting import eventually

PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def service(shards: Shards, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with (
        emptied(shards) as cluster,
        Feeding(cluster),
        Serving(tmp_path_factory.mktemp("serve"), shards.addresses) as serving,
    ):
        serving.until("/v1/hosts?state=current", lambda reply: reply.status == 200 and len(reply.json["hosts"]) == 2)
        yield serving
        assert "Traceback" not in serving.log.read_text()


def test_hosts_with_their_own_figures_ages_and_reasons(service: Serving) -> None:
    found = {host["name"]: host for host in service.ask("/v1/hosts").json["hosts"]}
    assert set(found) == {*HOSTS, SILENT}
    reading = found["web-1"]["readings"]["cpu_ratio"]
    assert reading["last"] == pytest.approx(reading["mean"] + 1)
    assert (reading["deviation"], reading["trend"], reading["validity"], reading["unit"]) == (
        2.0,
        0.5,
        "VALID",
        "cores",
    )
    assert [each["resource_set"] for each in found["web-1"]["sets"]] == ["host", "processes"]
    silent = found[SILENT]
    assert silent["state"] == "down"
    assert silent["age_seconds"] > 25
    assert "behind" in silent["reason"]
    assert silent["readings"] == {}


def test_fields_and_filters(service: Serving) -> None:
    hosts = service.ask("/v1/hosts?host=web-*&metric=cpu*&fields=state,mean").json["hosts"]
    assert [set(host) for host in hosts] == [{"id", "name", "state", "readings"}] * 2
    assert all(set(host["readings"]) == {"cpu_ratio"} for host in hosts)
    assert all(set(host["readings"]["cpu_ratio"]) == {"mean"} for host in hosts)
    (down,) = service.ask("/v1/hosts?state=down").json["hosts"]
    assert down["name"] == SILENT


def test_one_host_by_name_and_by_id(service: Serving) -> None:
    by_name = service.ask("/v1/hosts/web-1?fields=mean").json["host"]
    by_id = service.ask(f"/v1/hosts/{host_id('web-1'):016x}?fields=mean").json["host"]
    assert by_name["id"] == by_id["id"]
    assert [entity["name"] for entity in by_name["entities"]] == ["init", "web server"]
    one = by_name["entities"][1]
    entity = service.ask(f"/v1/entities/{one['id']}").json
    assert (entity["host"], entity["entity"]["name"], entity["entity"]["stable"]) == ("web-1", "web server", "web-1:2")
    assert set(entity["entity"]["readings"]) == {"cpu_ratio", "memory_resident_bytes"}


def test_the_snapshot_is_of_one_tick_by_columns(service: Serving) -> None:
    found = service.ask("/v1/snapshot?set=processes&metric=cpu_ratio&fields=mean,validity&state=current").json
    assert [block["host"] for block in found["blocks"]] == list(HOSTS)
    for block in found["blocks"]:
        assert block["tick"] == found["tick"]
        base = block["tick"] % 1000
        assert block["mean"] == [[float(base)], [float(base + 10)]]
        assert block["validity"] == [["VALID"], ["VALID"]]
        assert "last" not in block
    late = service.ask(f"/v1/snapshot?host={SILENT}").json["blocks"][0]
    assert late["mean"] == [[None, None], [None, None]]


@pytest.mark.parametrize("path", ["/v1/hosts", "/v1/hot", "/v1/snapshot?metric=cpu_ratio", "/openapi.json"])
def test_an_unchanged_answer_costs_nothing(service: Serving, path: str) -> None:
    for _ in range(3):  # the tick may change in between
        first = service.ask(path)
        again = service.ask(path, headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
        if again.status == 304:
            break
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert service.ask(path, headers={"If-None-Match": '"other"'}).status == 200


def test_compressed_plain_and_head(service: Serving) -> None:
    path = "/v1/hosts?host=web*"
    packed = service.ask(path, headers={"Accept-Encoding": "br, gzip;q=0.5"})
    assert packed.headers["content-encoding"] == "gzip"
    assert {host["name"] for host in json.loads(gzip.decompress(packed.body))["hosts"]} == set(HOSTS)
    for refused in ("gzip;q=0", "identity", "br"):
        plain = service.ask(path, headers={"Accept-Encoding": refused})
        assert "content-encoding" not in plain.headers
        assert len(plain.json["hosts"]) == 2
    head = service.ask(path, "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) > 100


def test_hot_and_moves_say_by_which_rule_and_abstain_without_figures(service: Serving) -> None:
    hot = service.ask("/v1/hot").json
    assert hot["hosts"] == 3
    assert {row["host"] for row in hot["abstained"]} == {*HOSTS, SILENT}
    assert all(row["reason"] for row in hot["abstained"])
    assert hot["hot"] is None, "nobody knows that none is"
    assert hot["blind"]
    other = service.ask("/v1/hot?rule=cusum&host=web-1&outcome=abstained&fields=reason").json
    assert other["rule"]["name"] == "cusum"
    assert [set(row) for row in other["abstained"]] == [{"host", "id", "outcome", "reason"}]
    assert "hot" not in other
    moves = service.ask("/v1/moves?list=moves").json
    assert (moves["moves"], "refused" in moves) == (None, False)


@pytest.mark.parametrize(
    ("path", "parameter", "values"),
    [
        ("/v1/hosts?fields=reason", "host", ("web-1", "web-2")),
        ("/v1/hosts?fields=reason", "state", ("current", "down")),
        ("/v1/snapshot?fields=mean", "set", ("host", "processes")),
        ("/v1/snapshot?fields=mean", "entity", ("init", "web*")),
        ("/v1/snapshot?fields=mean", "metric", ("cpu_ratio", "memory*")),
        ("/v1/hosts?host=web-1", "fields", ("mean", "reason")),
        ("/v1/hot?fields=host", "outcome", ("hot", "abstained")),
        ("/v1/moves?limit=1", "list", ("moves", "refused")),
    ],
)
def test_lists_are_given_with_commas_or_again(
    service: Serving, path: str, parameter: str, values: tuple[str, ...]
) -> None:
    commas, again = f"{path}&{parameter}={','.join(values)}", path + "".join(f"&{parameter}={one}" for one in values)

    def same() -> tuple[Any, Any] | None:
        one, other = service.ask(commas), service.ask(again)
        return (one.json, other.json) if one.headers["etag"] == other.headers["etag"] else None

    assert service.ask(commas).status == 200
    one, other = eventually(same, says=service.log.read_text)
    assert one == other


@pytest.mark.parametrize(
    ("path", "rows"), [("/v1/hosts?fields=reason", "hosts"), ("/v1/snapshot?fields=mean&set=processes", "blocks")]
)
def test_long_answers_are_taken_page_by_page(service: Serving, path: str, rows: str) -> None:
    names, after, pages = [], "", 0
    while pages < 9:
        page = service.ask(f"{path}&limit=2{after}").json
        names += [row.get("name") or row["host"] for row in page[rows]]
        pages += 1
        if page["next"] is None:
            break
        assert page["next"] == names[-1]
        after = f"&after={page['next']}"
    assert (names, pages) == (sorted((*HOSTS, SILENT)), 2)
    assert service.ask(path).json["next"] is None
    assert service.ask(f"{path}&after=zzz").json[rows] == []


def test_lists_of_decisions_are_limited(service: Serving) -> None:
    found = service.ask("/v1/hot?outcome=abstained&limit=1&fields=reason").json
    assert (len(found["abstained"]), found["hosts"]) == (1, 3)


def test_readings_without_figures_have_all_of_them(service: Serving) -> None:
    (host,) = service.ask("/v1/hosts?host=web-1&fields=readings").json["hosts"]
    assert set(host) == {"id", "name", "state", "readings"}
    assert set(host["readings"]["cpu_ratio"]) >= {"mean", "last", "validity", "unit", "inputs"}


def test_status_and_metrics(service: Serving) -> None:
    status = service.ask("/v1/status").json
    assert {row["alive"] for row in status["shards"]} == {True} if "alive" in status["shards"][0] else status["shards"]
    assert status["service"]["trouble"] == ""
    metrics = service.ask("/metrics")
    assert metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert b'shardpulse_set_age_seconds{host="web-1"' in metrics.body
    assert metrics.body.endswith(b"# EOF\n") or metrics.body.endswith(b"# EOF")
    classic = service.ask("/metrics", headers={"Accept": "text/plain;version=0.0.4"})
    assert classic.headers["content-type"].startswith("text/plain")


def test_reports_that_are_none(service: Serving) -> None:
    said = {"vm": "vm-1", "source": "web-1", "destination": "web-2", "phase": "started"}
    for changes, status in (
        ({}, 404),  # no host reports such a VM
        ({"source": "nowhere"}, 404),
        ({"vm": "x" * 300}, 400),
        ({"why": "unknown member"}, 400),
    ):
        assert service.report(**{**said, **changes}).status == status
    assert service.ask("/v1/migrations").json["migrations"] == []
    assert service.post(b"{}", "text/plain").status == 415
    assert service.post(b"[" * 60000).status == 400
    assert service.post(b" " * 70000).status == 413


def test_a_stream_tells_every_tick_and_goes_on_where_it_was_left(service: Serving) -> None:
    events = Events(service, "/v1/stream?topic=tick&topic=hot")
    assert events.answer.getheader("content-type") == "text/event-stream"
    found = [events.next() for _ in range(5)]
    events.close()
    kinds = [event["event"] for event in found]
    assert kinds.count("tick") >= 2
    assert "hot" in kinds
    ticks = [event for event in found if event["event"] == "tick"]
    assert json.loads(ticks[0]["data"])["hosts"] == 3
    last = int(ticks[0]["id"])
    again = Events(service, last=last)
    numbers = [int(again.next()["id"]) for _ in range(2)]
    again.close()
    assert numbers[0] > last
    assert numbers == sorted(numbers)
    assert int(ticks[1]["id"]) == numbers[0]
    gap = Events(service, last=1)
    assert gap.next()["event"] == "gap"
    gap.close()


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/v1/hosts?hots=web-1", 400, "expected one of"),
        ("/v1/hosts?host=", 400, "1 to 128"),
        ("/v1/hosts?host=" + "*a" * 40, 400, "wildcards"),
        ("/v1/hosts?host=%00", 400, "control"),
        ("/v1/hosts?host=%ff", 400, "UTF-8"),
        ("/v1/hosts?host=web-3", 404, "web-"),
        ("/v1/hosts?metric=cpu_ratoi", 404, "cpu_ratio"),
        ("/v1/hosts?state=idle", 400, "current"),
        ("/v1/snapshot?fields=mean,median", 400, "median"),
        ("/v1/snapshot?set=vns", 404, "no set"),
        ("/v1/hosts/nobody", 404, "unknown host"),
        ("/v1/entities/0123456789abcdef", 404, "unknown entity"),
        ("/v1/entities/--------", 404, "hexadecimal"),
        ("/v1/hot?rule=none", 400, "threshold"),
        ("/v1/moves?limit=0", 400, "whole number"),
        ("/v1/moves?limit=" + "9" * 5000, 400, "whole number"),
        ("/v1/moves?limit=1&limit=2", 400, "more than one value"),
        ("/v1/moves?fields=moves", 400, "expected one of"),
        ("/v1/hosts?host=web-1,", 400, "1 to 128"),
        ("/v1/hosts?host=" + ",".join(["web-1"] * 9), 400, "more than 8 values"),
        ("/v1/hosts?" + "&".join("host=a" for _ in range(1000)), 400, "invalid query string"),
        ("/v1/hosts?host=" + "x" * 10000, 400, "1 to 128"),
        ("/v1/hosts?host=" + "x" * 61000, 414, "61005"),
        ("/v1/status?x=1", 400, "none"),
        ("/v1/nothing", 404, "openapi"),
        ("/no/page.html", 404, ""),
        ("/../../etc/passwd", 404, ""),
        ("/__init__.py", 404, ""),
        ("/%00", 404, ""),
    ],
)
def test_bad_requests_are_told_what_is_wrong(service: Serving, path: str, status: int, says: str) -> None:
    reply = service.ask(path)
    assert (reply.status, reply.headers["content-type"]) == (status, PROBLEM), reply
    assert says in reply.json["detail"]
    assert reply.json["status"] == status


def test_wrong_methods_and_foreign_hosts(service: Serving) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        reply = service.ask("/v1/hosts", method)
        assert (reply.status, reply.headers["content-type"]) == (405, PROBLEM)
        assert "GET" in reply.headers["allow"]
    assert service.ask("/v1/hosts", headers={"Host": "rebound.example"}).status == 421
    assert service.ask("/v1/hosts", headers={"Host": "[::1]:80"}).status == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
        (b"GET /v1/hosts HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20000 + b"\r\n", b"431"),
        (b"GET /v1/hosts?host=" + b"x" * 200000, b"431"),
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /v1/hosts HTTP/9.9\r\n\r\n", b"400"),
        (b"BREW /v1/hosts HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /v1/hosts HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: x\r\n\r\n", b"400"),
    ],
)
def test_what_is_hardly_http(service: Serving, data: bytes, status: bytes) -> None:
    answer = service.raw(data, 1.0)
    assert answer[9:12] == status, answer[:200]
    assert b"application/problem+json" in answer


def test_the_rest_is_unharmed(service: Serving) -> None:
    def took() -> float:
        began = time.monotonic()
        assert service.ask("/v1/hot").status == 200
        return time.monotonic() - began

    assert min(took() for _ in range(5)) < 1.0  # the machine may be busy for a moment
