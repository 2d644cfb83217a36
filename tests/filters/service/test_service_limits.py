"""What clients may not do to others: idle connections, streams that are not read, too many of either; and what
the service does when its shards vanish, or when it is told to stop."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.link.layouts import write_layout
from acquisition.shards.servers.launch import Shards
from acquisition.wire.keys import DEFAULT_PARTITIONS
from tests.support.emptied import flush
from tests.support.processes import resident
from tests.support.scene import Scene
from tests.support.serving import HOSTS, PATIENCE, Events, Feeding, Serving
from tests.support.waiting import eventually

LIMITS = """
stale_seconds = 2.0
[serve.limits]
connections = 60
streams = 3
stream_queue = 3
idle_seconds = 2.0
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shards]:
    """Shards of this module's own, which may be stopped."""
    from acquisition.shards.servers.launch import start_shards

    with start_shards(1, tmp_path_factory.mktemp("alone"), maxmemory_bytes=64 << 20) as running:
        yield running


@pytest.fixture
def service(alone: Shards, tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path, alone.addresses, LIMITS) as serving:
        yield serving.ready()


def closed(plug: socket.socket) -> bool:
    plug.settimeout(PATIENCE)
    try:
        while plug.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_idle_connections_keep_nobody_out_and_are_closed(service: Serving) -> None:
    began = time.monotonic()
    plugs = []
    try:
        for number in range(300):
            plug = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
            plug.sendall(b"GET /v1/hot HTTP/1.1\r\nHost: local" if number % 2 else b"")  # silent, or never finished
            plugs.append(plug)
        assert service.ask("/v1/hot").status == 200
        assert len(os.listdir(f"/proc/{service.process.pid}/fd")) < 150
        assert all(closed(plug) for plug in plugs)
        assert time.monotonic() - began < 20.0
    finally:
        for plug in plugs:
            plug.close()
    assert service.ask("/v1/hot").status == 200


def test_streams_have_a_number(service: Serving) -> None:
    streams = [Events(service) for _ in range(3)]
    assert all(stream.answer.status == 200 for stream in streams)
    one_more = service.ask("/v1/stream")
    assert (one_more.status, one_more.json["type"]) == (503, "/problems/no-stream")
    streams[0].close()
    eventually(lambda: service.ask("/v1/status").json["service"]["streams"] == 2)
    last = Events(service)
    assert last.answer.status == 200
    for stream in (*streams[1:], last):
        stream.close()


def test_busy_connections_are_not_given_up_for_new_ones(alone: Shards, tmp_path: Path) -> None:
    limits = "[serve.limits]\nconnections = 4\nstreams = 10\n"
    with Serving(tmp_path, alone.addresses, limits) as service:
        service.ready()
        streams = [Events(service) for _ in range(4)]
        refused = service.raw(b"GET /v1/hot HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 503")
        assert all(stream.next()["event"] == "tick" for stream in streams)
        for stream in streams:
            stream.close()
        service.until("/v1/hot", lambda reply: reply.status == 200)


def test_shards_that_vanish_are_told_and_come_back(alone: Shards, service: Serving) -> None:
    cluster = alone.connect()
    with Feeding(cluster):
        service.until("/v1/hosts?state=current", lambda reply: len(reply.json.get("hosts", ())) == len(HOSTS))
        stream = Events(service)
        assert stream.next()["event"] == "tick"
        for pid in alone.pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            gone = service.until("/v1/hot", lambda reply: reply.status == 503)
            assert gone.headers["content-type"] == "application/problem+json"
            assert gone.headers["retry-after"] == "1"
            assert 0 < gone.json["age_seconds"] < 20.0
            assert "old" in gone.json["detail"]
            for path in (
                "/v1/hosts",
                "/v1/hosts?reading=latest",
                "/v1/snapshot",
                "/v1/moves",
                "/metrics",
                "/v1/entities/0123456789abcdef",
            ):
                assert service.ask(path).status == 503
            assert service.ask("/openapi.json").status == 200
            while (event := stream.next())["event"] == "tick":
                pass
            assert event["event"] == "trouble"
        finally:
            for pid in alone.pids:
                os.kill(pid, signal.SIGCONT)
        service.until("/v1/hosts?state=current", lambda reply: reply.status == 200 and len(reply.json["hosts"]) == 2)
        while (event := stream.next())["event"] == "trouble":
            pass
        assert event["event"] == "tick"
        stream.close()
    cluster.close()
    assert service.log.read_text().count("\n") <= 3


@pytest.mark.few
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_service_stops_gracefully_with_open_streams(service: Serving, number: int) -> None:
    reader = Events(service)
    assert reader.next()["event"] == "tick"
    deaf = socket.create_connection(("127.0.0.1", service.port))
    deaf.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    idle = socket.create_connection(("127.0.0.1", service.port))
    began = time.monotonic()
    assert service.end(number) == 0
    assert time.monotonic() - began < 4
    while reader.next():
        pass
    assert closed(idle)
    deaf.close()
    idle.close()
    reader.close()
    assert service.log.read_text() == ""


def test_a_signal_right_after_its_first_line_ends_it_too(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    with Serving(tmp_path, [f"127.0.0.1:{nobody}"]) as service:
        assert service.end(signal.SIGTERM) == 0


def test_it_serves_before_there_are_shards(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    with Serving(tmp_path, [f"127.0.0.1:{nobody}"]) as service:
        reply = service.until("/v1/hosts", lambda reply: "yet" not in reply.json["detail"])
        assert (reply.status, reply.json["age_seconds"]) == (503, None)
        assert service.ask("/v1/status").status == 503
        body = b'{"vm":"v","source":"a","destination":"b","phase":"started"}'
        assert service.post(body).status == 503


def test_a_picture_of_hosts_alone(alone: Shards, tmp_path: Path) -> None:
    cluster = alone.connect()
    with Feeding(cluster), Serving(tmp_path, alone.addresses, "resource_sets = ['host']\n") as service:
        service.until("/v1/hosts?state=current", lambda reply: len(reply.json.get("hosts", ())) == len(HOSTS))
        blocks = service.ask("/v1/snapshot?fields=mean").json["blocks"]
        assert {block["resource_set"] for block in blocks} == {"host"}
    cluster.close()


def test_a_client_that_does_not_take_its_answer_is_cut_off(alone: Shards, service: Serving, tmp_path: Path) -> None:
    """Many answers of megabytes that nobody reads: they are not piled up, and the connections end."""
    cluster = alone.connect()
    scene = Scene(cluster)
    now = int(time.time())
    names = [f"process {number}" for number in range(2000)]
    for number in range(10):
        scene.host(f"large-{number}", range(now - 2, now + 1), names=names)
    try:
        large = service.until("/v1/snapshot", lambda reply: len(reply.body) > 2_000_000)
        before = resident(service.process.pid)
        plugs = []
        for _ in range(40):
            plug = socket.socket()
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plug.connect(("127.0.0.1", service.port))
            plug.sendall(b"GET /v1/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n")
            plugs.append(plug)
        eventually(lambda: service.ask("/v1/hot").status == 200)
        assert resident(service.process.pid) - before < 10 * len(large.body)
        time.sleep(2.5)  # idle_seconds and a little
        eventually(lambda: len(os.listdir(f"/proc/{service.process.pid}/fd")) < 40)
        for plug in plugs:
            plug.close()
    finally:
        flush(cluster, alone.addresses)
        write_layout(cluster, DEFAULT_PARTITIONS)
        cluster.close()
