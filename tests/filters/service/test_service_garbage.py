"""The service sets memory aside from Python's collector, whose pauses would stall answers: so it makes no cycles."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import Snapshot
from filters.runtime.memory import TickSweeper
from filters.service.ticks.tick_cache import NewestCache, TickCache
from tests.support import ROOT
from tests.support.serving import Events, Feeding, Serving
from tests.support.waiting import eventually

PROGRAM = ROOT / "tests" / "support" / "counting_garbage.py"
#: Of a count: the collector's own frame of mind, and the first use of a module.
_A_FEW = 40


@pytest.fixture
def service(shards: Shards, cluster: Cluster, tmp_path: Path) -> Iterator[Serving]:
    root = str(ROOT)
    with Feeding(cluster), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", root)
        with Serving(tmp_path, shards.addresses, program=(str(PROGRAM),)) as serving:
            yield serving.ready()


def garbage(service: Serving, counts: int) -> int:
    """The ``counts``-th count."""
    os.kill(service.process.pid, signal.SIGUSR1)

    def found() -> list[str]:
        return re.findall(r"^garbage (\d+) .*", service.log.read_text(), re.MULTILINE)

    eventually(lambda: len(found()) >= counts, says=service.log.read_text)
    return int(found()[-1])


def test_neither_ticks_nor_clients_leave_cycles(service: Serving) -> None:
    garbage(service, 1)
    for number in range(25):
        service.ask("/v1/hot")
        service.ask(f"/v1/hosts?fields=mean&host=web{'*' * (number % 8 + 1)}")
        service.ask("/v1/snapshot?reading=latest")
        service.ask("/metrics")
        service.ask("/v1/status")
        service.ask("/v1/nothing")
        for path in ("/", "/scripts/main.js", "/nothing", "/a%00b", "/" + "x" * 3000):
            service.ask(path)
        service.ask("/v1/hosts?unknown=1")
        service.ask("/v1/hosts?host=nobody")
        service.raw(b"GET nonsense\r\n\r\n", 1.0)
        with socket.create_connection(("127.0.0.1", service.port)) as idle:
            idle.sendall(b"GET /v1/hot HTTP/1.1\r\nHost: local")
        if number % 5 == 0:
            stream = Events(service)
            assert stream.next()["event"] == "tick"
            stream.close()
    time.sleep(1.2)  # one more tick
    assert garbage(service, 2) <= _A_FEW, service.log.read_text()


def test_a_whole_sweep_takes_what_was_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    import gc

    done: list[str] = []
    for name in ("collect", "freeze", "unfreeze", "disable"):
        monkeypatch.setattr(gc, name, lambda *given, name=name: done.append(f"{name}{given or ''}"))
    counts = iter((9_000, 60_000, 9_000, 0))
    monkeypatch.setattr(gc, "get_count", lambda: (next(counts), 0, 0))
    sweeper = TickSweeper(100.0, 1000.0)
    for now in (1005.0, 1006.0, 1100.0, 1150.0):
        sweeper.set_aside()
        sweeper.sweep(now)
    partly, wholly = ["freeze", "collect(0,)"], ["freeze", "unfreeze", "collect", "freeze"]
    assert done == ["disable", "freeze", *partly, "freeze", *wholly, *partly]


def test_an_edition_goes_when_the_next_one_comes() -> None:
    newest = NewestCache(5.0)
    first = TickCache(1, "test", Snapshot("coherent", 1.0, [], ()))
    newest.publish(first)
    gone = weakref.ref(first)
    del first
    assert gone() is newest.last
    newest.publish(TickCache(2, "test", Snapshot("coherent", 2.0, [], ())))
    assert gone() is None
    assert newest.last is not None
    assert newest.last.number == 2
