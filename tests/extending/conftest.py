"""Hosts of which one is hot, and the addresses of their shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from acquisition.link.cluster import Cluster
from acquisition.shards.launch import Shards
from tests.support.data_center import AHEAD, Guest, Machine, run, smoothing
from tests.support.other_package import install, on_path


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
def hosts(shards: Shards, cluster: Cluster) -> str:
    """``hot`` with two VMs, ``warm`` and ``calm`` with room; answers the addresses of the shards."""
    machines = [
        Machine(cluster, "hot", [Guest("small", 2.4, 2), Guest("tall", 5.2, 4)]),
        Machine(cluster, "warm", [Guest("other", 1.0, 2)]),
        Machine(cluster, "calm"),
    ]
    with smoothing(cluster) as worker:
        run(worker, machines, ahead=AHEAD)
    return ",".join(map(str, shards.addresses))
