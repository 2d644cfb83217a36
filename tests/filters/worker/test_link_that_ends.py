"""What a worker that ends still had under way: a connection for its leases that comes afterwards is closed."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address, Connection
from filters.runtime.background_jobs import BackgroundJobs
from filters.worker.loop.lease_link import Link
from filters.worker.loop.poller import Poller
from tests.support.waiting import eventually


def test_connections_that_come_after_the_end_are_closed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    begun, may_go = threading.Event(), threading.Event()
    made: list[Connection] = []
    background, poller = BackgroundJobs(), Poller()
    (address, *_) = cluster.masters()

    def connect(where: Address) -> Connection:
        begun.set()
        assert may_go.wait(20.0)
        made.append(cluster.connect(where))
        return made[-1]

    def link() -> Link:
        return Link(address, raised.append, lambda *why: raised.append(why), connect, background, poller)

    under_way, not_begun = link(), link()
    under_way.connect(time.monotonic())
    not_begun.connect(time.monotonic())
    assert begun.wait(20.0)
    background.close()
    may_go.set()
    lane = f"background {('leases', address)}"
    eventually(lambda: all(thread.name != lane for thread in threading.enumerate()))
    assert raised == []
    assert [connection.fileno() for connection in made] == [-1]
    assert not under_way.connected
    assert not not_begun.connected
