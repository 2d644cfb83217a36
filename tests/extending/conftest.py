"""Toys of every kind, for the tests that look for them.

``toys``       adds packages with a toy each, which every process that a test starts finds
``hosts``      hosts of which one is hot; it is the addresses of their shards
``tree``       a checkout with a toy of each kind of the probe, each added as a newcomer would
``pipeline``   its shards, two probes, a filter and the query service. The host ``extended`` has the toy metric,
               the toy check and the toy source of processes; ``blocked`` has the toy source of VMs, in a child
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import write_layout
from acquisition.shards.servers.launch import Shards, start_shards
from acquisition.wire.keys import DEFAULT_PARTITIONS
from tests.extending.additions import BLOCKING, CHECK, METRIC, SOURCE
from tests.support.data_center import Guest, Machine, flowing
from tests.support.extended_tree import FIXTURES, ExtendedPipeline, ExtendedTree
from tests.support.other_package import install, on_path

_EXTENDED = """
[probe.processes]
source = "toy"
[checks.toy_check]
fewest_bytes = 1099511627776
"""
_BLOCKED = """
[probe.processes]
enabled = false
[probe.vms]
source = "blocking"
"""


class Toys:
    """Packages with a toy each, which every process that a test starts finds."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        monkeypatch.setenv("PYTHONPATH", on_path(directory))

    def add(self, kind: str) -> None:
        """The toy of a kind: one file and one registration."""
        install(self._directory, f"toy_{kind}", f"shardpulse.{kind}s", f"{kind.upper()}S")


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toys:
    return Toys(tmp_path / "packages", monkeypatch)


@pytest.fixture
def hosts(shards: Shards, cluster: Cluster) -> Iterator[str]:
    """``hot`` with two VMs, ``warm`` and ``calm`` with room; answers the addresses of the shards."""
    machines = [
        Machine(cluster, "hot", [Guest("small", 2.4, 2), Guest("tall", 5.2, 4)]),
        Machine(cluster, "warm", [Guest("other", 1.0, 2)]),
        Machine(cluster, "calm"),
    ]
    with flowing(cluster, machines):
        yield ",".join(map(str, shards.addresses))


@pytest.fixture(scope="package")
def tree(tmp_path_factory: pytest.TempPathFactory) -> ExtendedTree:
    environment = {
        "TOY_PROCESSES": str(FIXTURES / "toy_processes.txt"),
        "TOY_BLOCKING": str(FIXTURES / "toy_blocking.txt"),
    }
    return ExtendedTree(tmp_path_factory.mktemp("tree"), [METRIC, CHECK, SOURCE, BLOCKING], environment)


@pytest.fixture(scope="package")
def pipeline(tree: ExtendedTree, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtendedPipeline]:
    with start_shards(1, tmp_path_factory.mktemp("shards"), maxmemory_bytes=128 << 20) as shards:
        cluster = shards.connect()
        write_layout(cluster, DEFAULT_PARTITIONS)
        cluster.close()
        running = ExtendedPipeline(tree, shards, {"extended": _EXTENDED, "blocked": _BLOCKED})
        yield running
        running.close()
