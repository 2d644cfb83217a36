"""Shards on every kind of server: they form a cluster, fail over, go on when full, and speak TLS where it can."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.link.layouts import read_layout
from acquisition.shards.servers import bus, grants, machine
from acquisition.shards.servers import status as shard_status
from acquisition.shards.servers.launch import running, start_shards
from acquisition.shards.servers.redis_binary import ENVIRONMENT, RedisBinary
from experiments.processes import access
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import turn_until
from tests.support.feeder import Feeder
from tests.support.fixture_types import StartCluster
from tests.support.full_shard import fill
from tests.support.growth_load import loaded
from tests.support.series import applied_sequence, assert_equals_model, feed, frame
from tests.support.servers import SERVERS, one_of
from tests.support.tls_cluster import tls_cluster
from tests.support.waiting import eventually

QUICK = {"cluster-node-timeout": "1500"}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> RedisBinary:
    return one_of(request.param)


def test_the_command_starts_shards_and_names_server_and_lack(
    server: RedisBinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Servers without TLS that know its directives made ``shards up`` end with 69."""
    monkeypatch.setenv(ENVIRONMENT, server.path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    config = tmp_path / "shardpulse.toml"
    config.write_text(f'[shards]\ndirectory = "{tmp_path / "state"}"\nmaxmemory_bytes = 33554432\n')
    try:
        assert shardpulse(["shards", "up", "--count", "1", "--config", str(config)]) == 0
        said, state = capsys.readouterr(), running(tmp_path / "state")
        assert state is not None
        assert f"{server.name} (given)" in said.out
        assert ("the cluster bus has no TLS" in said.err) != state.bus_secured
        assert (f"{server.name} ({server.path}) does not speak TLS" in said.err) != state.bus_secured
        assert stat.S_IMODE(state.directory.stat().st_mode) == 0o700
        assert not (state.directory / "trial").exists()
    finally:
        shardpulse(["shards", "down", "--config", str(config)])
    assert not (tmp_path / "state").exists()


def test_shards_form_a_cluster_that_loses_nothing(server: RedisBinary, tmp_path: Path) -> None:
    with start_shards(2, tmp_path / 'a "quoted" name', maxmemory_bytes=64 << 20, partitions=16, redis=server) as shards:
        cluster = shards.connect()
        assert read_layout(cluster).partitions == 16
        assert cluster.masters() == shards.addresses
        rows = shard_status.read(shards.shards, 16)
        assert [(row.slots, row.pinned, row.cluster_state) for row in rows] == [(8192, True, "ok")] * 2
        with contextlib.closing(cluster.connect(shards.addresses[0])) as connection:
            for name, value in {
                "maxmemory": "67108864",
                "maxmemory-policy": "noeviction",
                "save": "",
                "appendonly": "no",
                "bind": "127.0.0.1",
                "protected-mode": "yes",
                "cluster-require-full-coverage": "no",
                "unixsocket": "",
            }.items():
                (_, found) = connection.call("CONFIG", "GET", name)
                assert found.decode() == value, name


def test_a_dead_master_comes_back_as_the_replica_of_its_replica(
    server: RedisBinary, start_cluster: StartCluster
) -> None:
    count = 3  # they elect the new master; of fewer the replica is told to: see the test of the command
    shards = start_cluster(count, replicas=1, directives=QUICK, secured=True, redis=server)
    assert shards.bus_secured != bool(shards.bus_lack)
    rows = shard_status.read(shards.shards, credentials=shards.credentials)
    assert [row.role for row in rows] == ["master"] * count + ["replica"] * count
    assert [row.replica_of for row in rows[count:]] == [row.address for row in rows[:count]]
    assert all(row.in_sync for row in rows[count:])
    assert all(row.core != rows[count + i].core for i, row in enumerate(rows[:count]) if os.cpu_count() != 1)
    with loaded(shards.directory) as load:
        hit = next(host for host in load.hosts if load.writers[host]._sender.address == shards.addresses[0])
        before = load.position(hit)
        assert before is not None
        os.kill(shards.pids[0], signal.SIGKILL)
        eventually(lambda: not shards.shards[0].alive)
        shards.revive()  # at once: it must not be there before its replica has taken over
        rows = shard_status.read(shards.shards, credentials=shards.credentials)
        assert (rows[0].role, rows[0].replica_of, rows[0].in_sync) == ("replica", rows[count].address, True)
        assert (rows[count].role, rows[count].slots) == ("master", 16384 // count)
        load.wait(lambda: load.position(hit) is not None)
        after = load.position(hit)
        assert after is not None
        assert (after.epoch, after.frames >= before.frames - 20) == (before.epoch, True)  # not from the start
        load.assert_whole()


def test_a_full_shard_is_emptied_by_the_commits_themselves(server: RedisBinary, start_cluster: StartCluster) -> None:
    cluster = start_cluster(1, redis=server).connect()
    feeder = Feeder(cluster)
    worker = lone_worker(cluster, read_layout(cluster), FilterSettings(retention_seconds=3600.0), report=lambda _: None)
    feed(feeder, 1, 3)
    turn_until(worker, lambda: applied_sequence(cluster, feeder) == 3)
    feed(feeder, 4, 6)
    large = fill(cluster, 3 << 20)
    refused = frame(feeder, 7)
    turn_until(worker, lambda: applied_sequence(cluster, feeder) == 6)
    turn_until(worker, lambda: applied_sequence(cluster, large) == large.sequence - 1)
    assert worker.counters["errors"] > 0
    feeder.push(refused)  # there is room again, nobody helped
    feed(feeder, 8, 9)
    turn_until(worker, lambda: applied_sequence(cluster, feeder) == 9)
    assert_equals_model(cluster, feeder, 9)
    worker.close()


def test_shards_that_speak_nothing_but_tls_form_a_cluster(
    server: RedisBinary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, server.path)
    if lack := access.missing():
        assert f"{server.name} ({server.path}) does not speak TLS" in lack
        assert "install Redis 7 or newer, or Valkey, built with TLS" in lack
        pytest.skip(f"SHARDS WITH TLS ARE NOT TESTED ON {server.name.upper()}: this build has none")
    with tls_cluster(tmp_path, masters=1) as secured:
        rows = shard_status.read_at(secured.addresses, 64, credentials=secured.credentials(grants.OPERATOR))
        assert [(row.role, row.cluster_state) for row in rows] == [("master", "ok"), ("replica", "ok")]


# ------------------------------------------------------------------ TLS as a module


@pytest.mark.parametrize(
    ("program", "module"),
    [
        ("src/valkey-server", "src/valkey-tls.so"),
        ("usr/bin/valkey-server", "usr/lib64/valkey/modules/valkey-tls.so"),
        ("usr/bin/redis-server", "usr/lib/x86_64-linux-gnu/redis/modules/redis-tls.so"),
        ("opt/valkey/bin/valkey-server", "opt/valkey/libexec/valkey/tls.so"),
    ],
)
def test_a_module_is_found_beside_its_program(tmp_path: Path, program: str, module: str) -> None:
    for path in (program, module, f"{Path(module).parent}/other.so"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "link").symlink_to(tmp_path / program)
    for path in (program, "link"):
        assert bus.modules(str(tmp_path / path)) == [str(tmp_path.resolve() / module)]


def test_a_module_of_another_build_is_tried_and_named(tmp_path: Path) -> None:
    server = one_of("Valkey 9")
    program, module = tmp_path / "bin" / "valkey-server", tmp_path / "lib" / "valkey" / "valkey-tls.so"
    for path in (program, module):
        path.parent.mkdir(parents=True)
    shutil.copy(server.path, program)
    module.write_bytes(b"of another build")
    module.chmod(0o755)
    copy = server._replace(path=str(program))
    with start_shards(1, tmp_path / "state", maxmemory_bytes=32 << 20, redis=copy, secured=True) as shards:
        assert f"{module}: " in shards.bus_lack
        assert machine.start_time(shards.pids[0])
        assert not shards.bus_secured
