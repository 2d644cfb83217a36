"""Real shards for every test: redis-server processes that form a Redis Cluster on free ports.

``shards``         the running cluster of this test session (two masters), shared by all tests
``cluster``        a Cluster connected to it, its data emptied and its layout rewritten for this test
``start_cluster``  a factory of clusters of the test's own, for tests that stop, kill or fill them

All of them die with the test process, in whatever way it ends.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards, start_shards
from tests.support.emptied import emptied
from tests.support.fixture_types import StartCluster

pytest_plugins = [
    "tests.support.repeated", "tests.support.hosts.stamp", "tests.support.quick", "tests.support.turns",
    "tests.support.untested",
]  # fmt: skip

# how long an example takes says how busy the machine is, not whether the example holds
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started by `nohup tests/run &`: children would inherit it,
    signal.signal(signal.SIGINT, signal.default_int_handler)  # and tests press Ctrl-C in them


@pytest.fixture(autouse=True)
def collections_go_on() -> Iterator[None]:
    """Programs that sweep for themselves turn the collector off; in a test they end, and the process goes on."""
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def connections_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test has connected by ``Shards.connect`` when it ends, also where it has failed."""
    made: list[Cluster] = []
    connect = Shards.connect

    def kept(shards: Shards, timeout: float = 2.0) -> Cluster:
        made.append(connect(shards, timeout))
        return made[-1]

    monkeypatch.setattr(Shards, "connect", kept)
    yield
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shards]:
    """Two masters for the whole session; tests must not stop them."""
    with start_shards(2, tmp_path_factory.mktemp("shards"), maxmemory_bytes=256 << 20) as running:
        yield running


@pytest.fixture
def cluster(shards: Shards) -> Iterator[Cluster]:
    """The session's cluster without any data but its layout."""
    with emptied(shards) as connected:
        yield connected


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """``start_cluster(count, **options of start_shards)`` starts a cluster that ends with the test."""
    started: list[Shards] = []

    def start(count: int = 2, **options: object) -> Shards:
        options.setdefault("maxmemory_bytes", 128 << 20)
        directory = tmp_path / f"cluster-{len(started)}"
        started.append(start_shards(count, directory, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for running in started:
        running.stop()
