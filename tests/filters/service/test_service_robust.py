"""Real clients that behave badly, against a real service: a deaf stream, thousands of idle ones, hostile queries."""

from __future__ import annotations

import http.client
import json
import os
import random
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest

from acquisition.link.layouts import write_layout
from acquisition.shards.servers.launch import Shards, start_shards
from acquisition.wire.keys import DEFAULT_PARTITIONS
from tests.support.fixture_types import StartCluster
from tests.support.processes import resident
from tests.support.scene import Scene
from tests.support.serving import Events, Feeding, Serving
from tests.support.waiting import PATIENCE, eventually

HOSTS = 200
#: Long names make large answers: those of few ticks fill the megabytes that the kernel holds for a client.
DOMAIN = ".example" * 25
IDLE = 3000
#: Twenty pictures a second: what is not read piles up soon.
FAST = """
interval_seconds = 0.05
[serve.limits]
connections = 1000
streams = 20
stream_queue = 5
idle_seconds = 3.0
"""
ENTITY = "/v1/entities/0123456789abcdef"
PATHS = (
    "/v1/hosts", f"/v1/hosts/web-0{DOMAIN}", "/v1/snapshot", "/v1/hot", "/v1/moves", "/v1/status", "/metrics",
    "/v1/heat", ENTITY, f"{ENTITY}/recent", "/v1/roster", "/openapi.json",
)  # fmt: skip
KNOWN = (
    "host",
    "label",
    "entity_label",
    "set",
    "entity",
    "metric",
    "state",
    "fields",
    "reading",
    "rule",
    "limit",
    "top",
)
PIECES = (
    b"*", b"?", b"[",
    b"]", b"!", b"=", b",", b"&", b"%", b"\x00", b"\xff", b"\xc3\xa9", b"web-", b"cpu_ratio", b"latest",
    b"mean", b"..", b"/", b"\r\n", b"'", b'"', b"<script>", b"{{", b"\\", b"9" * 40, b"-1", b"a" * 300,
)  # fmt: skip


pytestmark = pytest.mark.few


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shards]:
    """Shards of this module's own with the records of many hosts, which become late and then down."""
    with start_shards(1, tmp_path_factory.mktemp("robust"), maxmemory_bytes=64 << 20) as running:
        cluster = running.connect()
        write_layout(cluster, DEFAULT_PARTITIONS)
        scene, now = Scene(cluster), int(time.time())
        for number in range(HOSTS):
            name = f"web-{number}{DOMAIN}"
            scene.host(name, [now], resource_set="host", names=[name])
        yield running
        cluster.close()


@pytest.fixture(scope="module")
def service(apart: Shards, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("robust"), apart.addresses, FAST) as serving:
        yield serving.ready()
        assert "Traceback" not in serving.log.read_text()


def test_a_stream_that_is_not_read_is_cut_off_and_the_others_go_on(service: Serving) -> None:
    before = resident(service.process.pid)
    deaf = []
    for _ in range(5):
        plug = socket.socket()
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plug.connect(("127.0.0.1", service.port))
        plug.sendall(b"GET /v1/stream?topic=hot HTTP/1.1\r\nHost: localhost\r\n\r\n")
        deaf.append(plug)
    reader = Events(service, "/v1/stream?topic=tick")
    try:
        numbers: list[int] = []
        deadline = time.monotonic() + 3 * PATIENCE
        while (own := service.ask("/v1/status").json["service"])["streams_cut_off"] < len(deaf):
            assert time.monotonic() < deadline, own
            events = [reader.next() for _ in range(10)]
            assert {event["event"] for event in events} == {"tick"}  # no gap: nothing was kept from it
            numbers += [int(event["id"]) for event in events]
        assert own["streams"] == 1
        assert numbers == sorted(set(numbers))
        assert resident(service.process.pid) - before < 64 << 20
    finally:
        reader.close()
        for plug in deaf:
            plug.close()


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Enough of them for a test that holds thousands of sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"THOUSANDS OF CONNECTIONS ARE NOT TESTED HERE: only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_thousands_of_idle_connections(service: Serving, descriptors: None) -> None:
    before = resident(service.process.pid)
    plugs, slowest = [], 0.0
    try:
        for number in range(IDLE):
            plugs.append(socket.create_connection(("127.0.0.1", service.port), 10))
            if number % 3 == 1:
                plugs[-1].sendall(b"GET /v1/hot HTTP/1.1\r\nHost: local")  # never goes on
            if number % 250 == 0:
                began = time.monotonic()
                assert service.ask("/v1/hot").status == 200
                slowest = max(slowest, time.monotonic() - began)
        assert slowest < 1.0
        assert len(os.listdir(f"/proc/{service.process.pid}/fd")) < 1000 + 200
        assert resident(service.process.pid) - before < 64 << 20
        eventually(lambda: len(os.listdir(f"/proc/{service.process.pid}/fd")) < 200, 20.0)  # idle_seconds are over
    finally:
        for plug in plugs:
            plug.close()
    assert service.ask("/v1/hot").status == 200


def queries(count: int) -> list[bytes]:
    """Query strings of known and unknown names with values of what breaks parsers; some of them not even encoded."""
    dice = random.Random("hostile queries")
    found = []
    for _ in range(count):
        pairs = []
        for _ in range(dice.randint(1, 6)):
            value = b"".join(dice.choices(PIECES, k=dice.randint(0, 6)))
            raw = bytes(byte for byte in value if 33 <= byte <= 126 and byte not in b"&#")
            pairs.append(
                dice.choice(KNOWN).encode() + b"=" + (raw if dice.random() < 0.3 else quote_from_bytes(value).encode())
            )
        found.append(b"&".join(pairs))
    return found


def test_hostile_queries_are_answered_at_once_on_one_connection(service: Serving) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    seen: dict[int, int] = {}
    for number, query in enumerate(queries(600)):
        for _ in range(5):  # a slow query is slow each time, a busy machine is not
            began = time.monotonic()
            connection.request("GET", f"{PATHS[number % len(PATHS)]}?{query.decode()}")
            answer = connection.getresponse()
            body = answer.read()
            if time.monotonic() - began < 1.0:
                break
        else:
            pytest.fail(f"a slow query: {query!r}")
        seen[answer.status] = seen.get(answer.status, 0) + 1
        if answer.status != 200:
            assert answer.getheader("content-type") == "application/problem+json", (query, body)
            assert json.loads(body)["detail"]
    connection.close()
    assert set(seen) <= {200, 400, 404, 422}, seen
    assert seen[400] > 100
    assert service.ask("/v1/hot").status == 200


def test_patterns_that_are_slow_elsewhere_hold_nobody_up(service: Serving) -> None:
    """The costliest patterns that are allowed, many at once, while others ask for what is prepared."""
    stop, waits = threading.Event(), []

    def ask_for_what_is_prepared() -> None:
        while not stop.is_set():
            began = time.monotonic()
            assert service.ask("/v1/hot").status == 200
            waits.append(time.monotonic() - began)

    other = threading.Thread(target=ask_for_what_is_prepared)
    other.start()
    try:
        for number in range(40):
            pattern = "*" + "e*" * 7 + "x" * (number % 20)
            reply = service.ask("/v1/hosts?" + "&".join(f"host={pattern}" for _ in range(8)) + "&fields=mean")
            assert reply.status in (200, 404)
    finally:
        stop.set()
        other.join(10)
    assert sorted(waits)[len(waits) * 9 // 10] < 0.5


def test_a_full_disk_behind_stderr_blinds_nobody(start_cluster: StartCluster, tmp_path: Path) -> None:
    shards = start_cluster(1)
    with (
        closing(shards.connect()) as cluster,
        Feeding(cluster),
        Serving(tmp_path, shards.addresses, "stale_seconds = 2.0\n", log="/dev/full") as service,
    ):
        service.ready()
        os.kill(shards.pids[0], signal.SIGSTOP)
        try:
            # by then the trouble has lasted long enough to be told, to a log that takes nothing
            service.until("/v1/hosts", lambda reply: reply.status == 503 and reply.json["age_seconds"] > 8)
        finally:
            os.kill(shards.pids[0], signal.SIGCONT)
        service.ready()
        assert service.end() == 0
