"""Hosts in network namespaces: they reach each other, their links fail as asked, and nothing of them stays."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.errors import CannotCreateError
from acquisition.link.resp import Address
from experiments import testbed
from experiments.testbed import capability, relay
from experiments.testbed.network import Host, Testbed
from experiments.testbed.view import parse
from tests.support.waiting import eventually

needs_namespaces = pytest.mark.skipif(
    bool(testbed.missing()), reason=f"THE TESTBED IS NOT TESTED HERE: {testbed.missing()}"
)


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with Testbed(hosts=2) as made:
        yield made


@pytest.fixture
def echo(bed: Testbed) -> Iterator[Address]:
    """A server on host 0 that sends back what it gets, until the test ends; the links are healed then."""
    with bed.hosts[0].inside():
        listening = socket.create_server((bed.hosts[0].address, 0))
    connections: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection = listening.accept()[0]
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed by the test's end
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    yield Address(*listening.getsockname())
    bed.heal()
    listening.shutdown(socket.SHUT_RDWR)
    for opened in (listening, *connections):
        opened.close()


def connect(host: Host, address: Address, seconds: float = 2.0) -> socket.socket:
    with host.inside():
        return socket.create_connection(address, seconds)


def exchange(connection: socket.socket, size: int = 1) -> float:
    """Seconds until ``size`` bytes have come back."""
    began = time.monotonic()
    threading.Thread(target=connection.sendall, args=(bytes(size),)).start()
    while size > 0:  # what an earlier exchange gave up comes as well
        received = len(connection.recv(1 << 16))
        assert received
        size -= received
    return time.monotonic() - began


@needs_namespaces
def test_hosts_reach_each_other_and_this_process_reaches_them(bed: Testbed, echo: Address) -> None:
    with connect(bed.hosts[1], echo) as connection:
        assert connection.getsockname()[0] == bed.hosts[1].address
        exchange(connection, 1 << 20)
    with socket.create_connection(echo, 2.0) as connection:
        assert connection.getsockname()[0] == bed.address


@needs_namespaces
def test_nothing_passes_a_cut_link_until_it_is_healed(bed: Testbed, echo: Address) -> None:
    with connect(bed.hosts[1], echo) as connection:
        with bed.hosts[1].link.cut():
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                exchange(connection)
        connection.settimeout(5.0)
        exchange(connection)  # it was only late


@pytest.mark.alone
@needs_namespaces
def test_a_delay_is_added_in_each_direction_and_taken_back(bed: Testbed, echo: Address) -> None:
    with connect(bed.hosts[1], echo) as connection:
        assert exchange(connection) < 0.05
        with bed.hosts[1].link.delay(0.06, jitter=0.01):
            exchange(connection)  # what changing the port of the bridge costs is over then
            assert 0.12 <= exchange(connection) < 0.3
        connection.settimeout(5.0)
        exchange(connection)
        assert exchange(connection) < 0.05


@needs_namespaces
def test_a_part_of_the_packets_is_lost(bed: Testbed) -> None:
    """Datagrams, which nobody sends again: of 2,000 with probability 0.3 those that arrive."""
    with bed.hosts[0].inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as target:
        target.bind((bed.hosts[0].address, 0))
        target.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        with bed.hosts[1].inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
            fault = bed.hosts[1].link.loss(0.3)
            source.connect(target.getsockname())
            for number in range(2000):
                source.send(b"x")
                if number % 50 == 0:
                    time.sleep(0.002)
        arrived = 0
        target.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            while target.recv(10):
                arrived += 1
        fault.heal()
    assert 1250 < arrived < 1550  # 1,400 +- 7 standard deviations


@pytest.mark.alone
@needs_namespaces
@pytest.mark.skipif(not capability.has_tbf(), reason="RATE LIMITS ARE NOT TESTED HERE: this kernel has no tc tbf")
def test_a_rate_limit_holds(bed: Testbed, echo: Address) -> None:
    with connect(bed.hosts[1], echo) as connection:
        connection.settimeout(5.0)
        with bed.hosts[1].link.rate(8e6):
            assert 0.2 < exchange(connection, 300_000) < 2.0  # 0.3 s without the burst
        exchange(connection)
        assert exchange(connection, 300_000) < 0.15


@needs_namespaces
def test_only_packets_from_a_blocked_address_vanish(bed: Testbed, echo: Address) -> None:
    with connect(bed.hosts[1], echo) as connection:
        with bed.hosts[1].link.block(Address(echo.host, echo.port + 1)):
            exchange(connection)
            with bed.hosts[1].link.block(echo):
                connection.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    exchange(connection)
        connection.settimeout(5.0)
        exchange(connection)


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_stays_when_its_process_is_killed(number: signal.Signals) -> None:
    program = (
        "import time; from experiments.processes.control import Child; from experiments.testbed import Testbed\n"
        "with Testbed(hosts=1) as bed:\n"
        "    bed.hosts[0].link.delay(0.01)\n"
        "    with bed.hosts[0].inside():\n"
        "        child = Child('sleep', ['sleep', '60'])\n"
        "    print(child.pid, bed._uplink, flush=True)\n"
        "    time.sleep(60)\n"
    )
    root = Path(testbed.__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    pid, interface = process.stdout.readline().split()
    assert interface in {name for _, name in socket.if_nameindex()}
    process.send_signal(number)
    process.communicate()
    eventually(
        lambda: not (interface in {name for _, name in socket.if_nameindex()} or Path(f"/proc/{pid}").exists()),
        says=lambda: "something stays",
    )


@needs_namespaces
def test_what_cannot_be_is_refused_with_the_reason(bed: Testbed, tmp_path: Path) -> None:
    with pytest.raises(CannotCreateError, match="0 hosts"):
        Testbed(hosts=0)
    with pytest.raises(CannotCreateError, match="need more than 2 hosts"):
        testbed.start_cluster(bed, tmp_path, masters=1, replicas=2)
    with pytest.raises(ValueError, match="no probability"):
        bed.hosts[0].link.loss(1.5)


def test_without_root_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    capability.missing.cache_clear()
    try:
        assert "need root" in testbed.missing()
        with pytest.raises(CannotCreateError, match="run this as root"):
            Testbed()
    finally:
        capability.missing.cache_clear()


def test_the_relay_knows_tcp_by_source_address_and_port() -> None:
    blocked = frozenset([(socket.inet_aton("10.0.0.1"), 7000)])

    def frame(source: str = "10.0.0.1", port: int = 7000, protocol: int = 6, ether: bytes = b"\x08\x00") -> bytes:
        header = bytes([0x46, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0]) + socket.inet_aton(source) + bytes(8)
        return bytes(10) + bytes(12) + ether + header + port.to_bytes(2, "big") + bytes(18)

    assert relay.is_blocked(frame(), blocked)
    assert not relay.is_blocked(frame(), frozenset())
    others = [frame(source="10.0.0.2"), frame(port=7001), frame(protocol=17), frame(ether=b"\x08\x06"), b"", bytes(30)]
    assert not any(relay.is_blocked(other, blocked) for other in others)


def test_a_view_of_the_cluster_is_parsed() -> None:
    view = parse(
        "a1 10.0.0.1:7000@17000 myself,master - 0 0 4 connected 0-5460 [5461->-b2]\n"
        "b2 10.0.0.2:7000@17000 master,fail - 0 0 2 disconnected\n"
        "c3 10.0.0.3:7000@17000 slave a1 0 0 4 connected\n"
        "d4 10.0.0.3:7000@17000 slave,fail a1 0 0 4 connected\n"
    )
    assert (view.asked, view.epoch, view.owners) == ("a1", 4, {"a1"})
    assert view.replicas_of("a1") == {"c3"}
