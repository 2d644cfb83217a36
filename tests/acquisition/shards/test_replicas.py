"""Replicas of local shards: they take over before a dead master is started again, which then follows them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from acquisition.config.settings import Shards as Settings
from acquisition.errors import ConfigError
from acquisition.shards.commands import growth_command
from acquisition.shards.servers import local_growth
from acquisition.shards.servers import status as shard_status
from tests.support.fixture_types import StartCluster
from tests.support.growth_load import command, loaded
from tests.support.ports import base_port

QUICK = {"cluster-node-timeout": "1500"}


def test_growth_keeps_the_number_of_replicas(start_cluster: StartCluster) -> None:
    shards = start_cluster(1, replicas=1, directives=QUICK, secured=True)
    with loaded(shards.directory, hosts=8) as load:
        local_growth.add(shards, lambda _: None, directives=QUICK)
        rows = shard_status.read(shards.shards, credentials=shards.credentials)
        assert sorted((row.role, row.slots, row.replicas) for row in rows if row.role == "master") == [
            ("master", 8192, 1),
            ("master", 8192, 1),
        ]
        local_growth.remove(shards, "shard-0", lambda _: None)
        rows = shard_status.read(shards.shards, credentials=shards.credentials)
        assert [(row.role, row.slots) for row in rows] == [("master", 16384), ("replica", 0)]
        load.assert_whole()


def test_more_replicas_wanted_than_there_are() -> None:
    with pytest.raises(ConfigError, match="would refuse all frames"):
        growth_command.directives(Settings(min_replicas_to_write=2, replicas=1))
    assert growth_command.directives(Settings(min_replicas_to_write=1, replicas=1)) == {"min-replicas-to-write": "1"}


def test_the_command_starts_replicas_and_what_has_died(tmp_path: Path) -> None:
    place = tmp_path / "state"
    try:
        up = subprocess.run(
            command(place, "up", "--count", "1", "--replicas", "1", "--base-port", base_port(2), "--json"),
            capture_output=True,
        )
        rows = json.loads(up.stdout)["shards"]
        assert [row["role"] for row in rows] == ["master", "replica"]
        os.kill(rows[0]["pid"], signal.SIGKILL)
        again = subprocess.run(command(place, "up"), capture_output=True, text=True, check=True)
        assert f"restarted {rows[0]['address']}" in again.stderr
        assert f"replica of {rows[1]['address']}, in sync" in again.stdout
    finally:
        subprocess.run(command(place, "down"), capture_output=True, check=True)
