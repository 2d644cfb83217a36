"""Shards with users: the real parts can do their work, and nobody can do more, in Redis 6.2 as in 7."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import CannotCreateError, PermissionRefused, ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.local_shards import LocalShards
from acquisition.link.resp import Connection
from acquisition.link.trust import admission
from acquisition.link.trust.credentials import (
    ADMINISTRATOR,
    PASSWORDS_FILE,
    PIPELINE,
    REPLICA,
    WRITER_TOKEN_FILE,
    Credentials,
    local,
    ours,
)
from acquisition.outbox.link.sender import Sender
from acquisition.shards.servers import grants, local_growth, redis_binary
from acquisition.shards.servers import status as shard_status
from acquisition.shards.servers.launch import Shards, running, start_shards
from tests.support import parts
from tests.support.fixture_types import StartCluster
from tests.support.forbidden import FORBIDDEN, refused
from tests.support.processes import started
from tests.support.servers import PATHS
from tests.support.untested import require
from tests.support.waiting import eventually

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")

#: What the administrator of `shardpulse shards` may not do either.
BEYOND_ADMINISTRATION = [
    "MODULE LOAD /tmp/x.so", "DEBUG SEGFAULT", "FLUSHALL", "SHUTDOWN NOSAVE", "SAVE", "BGSAVE", "CONFIG REWRITE",
    "ACL LIST", "ACL SETUSER default on nopass +@all ~*", "EVAL return(1) 0", "REPLICAOF 127.0.0.1 1", "MONITOR",
    "SUBSCRIBE x", "KEYS *", "CLIENT KILL TYPE normal",
]  # fmt: skip
#: What a replica's user may not do: everything but to follow.
BEYOND_FOLLOWING = ["GET x", "SET x y", "INFO", "CLUSTER SLOTS", "CONFIG GET *", "EVAL return(1) 0", "XADD x * a b"]


@pytest.fixture(scope="module", params=PATHS)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shards]:
    directory = tmp_path_factory.mktemp("secured") / "state"
    redis = redis_binary.find(request.param)
    with start_shards(1, directory, maxmemory_bytes=64 << 20, redis=redis, secured=True) as shards:
        yield shards


def tried(shards: Shards, commands: list[str], credentials: Credentials | None) -> list[str]:
    """Those of the commands that were not refused; each on a connection of its own."""
    done = []
    for command in commands:
        with contextlib.closing(Connection(shards.addresses[0], credentials)) as connection:
            (reply,) = connection.pipeline([tuple(command.split())])
            if not refused(reply):
                done.append(f"{command}: {reply!r}")
    return done


@pytest.mark.parametrize(
    ("user", "commands"), [(PIPELINE, FORBIDDEN), (ADMINISTRATOR, BEYOND_ADMINISTRATION), (REPLICA, BEYOND_FOLLOWING)]
)
def test_no_user_may_do_more_than_its_work(secured: Shards, user: str, commands: list[str]) -> None:
    assert not tried(secured, commands, local(str(secured.directory), user))


def test_strangers_may_do_nothing(secured: Shards) -> None:
    everything = [*FORBIDDEN, *BEYOND_FOLLOWING, "CLUSTER NODES", "ASKING", "GET layout:{0.61}", "PING"]
    assert not tried(secured, everything, None)
    for credentials in (Credentials("default", "x"), Credentials(PIPELINE, "x"), Credentials(ADMINISTRATOR, "x")):
        with pytest.raises(PermissionRefused, match="WRONGPASS"):
            Connection(secured.addresses[0], credentials)


def test_passwords_lie_in_files_of_their_own_and_nowhere_else(secured: Shards) -> None:
    passwords = json.loads((secured.directory / PASSWORDS_FILE).read_text())
    assert set(passwords) == set(grants.LOCAL_USERS)
    assert all(len(password) == 64 for password in passwords.values())
    for file in secured.directory.rglob("*"):
        holds = file.is_file() and any(password in file.read_text(errors="replace") for password in passwords.values())
        assert not holds or stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE((secured.directory / grants.ACL_FILE).stat().st_mode) == 0o600
    command_line = Path(f"/proc/{secured.pids[0]}/cmdline").read_text()
    assert not any(password in command_line for password in passwords.values())


def rejections(shards: Shards) -> dict[str, int]:
    """How often a server has refused each command, from its statistics."""
    with contextlib.closing(Connection(shards.addresses[0], shards.credentials)) as connection:
        text = connection.call("INFO", "commandstats").decode()
    found = re.findall(r"^cmdstat_([^:]+):.*rejected_calls=([1-9]\d*)", text, re.MULTILINE)
    return {command: int(count) for command, count in found}


#: What the service answers when it has what it needs of the shards.
SERVED = [
    "/v1/hosts", "/v1/snapshot", "/v1/hot", "/v1/moves", "/v1/heat", "/v1/roster", "/v1/migrations", "/v1/status",
    "/metrics",
]  # fmt: skip


def token(shards: Shards) -> str:
    return (shards.directory / WRITER_TOKEN_FILE).read_text().strip()


def reported(place: str, token: str) -> int:
    """Status of the answer to a report of a migration."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    body = b'{"vm": "v", "source": "a", "destination": "b", "phase": "started"}'
    try:
        return int(urlopen(Request(f"{place}/v1/migrations", body, headers), timeout=10).status)
    except HTTPError as error:
        return error.code


def test_the_real_parts_can_do_all_that_they_do(
    secured: Shards, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rejections(secured)
    config = tmp_path / "shardpulse.toml"
    ring = tmp_path / "ring"
    config.write_text(
        f'[shards]\ndirectory = "{secured.directory}"\n[probe]\ninterval_seconds = 0.2\nring_path = "{ring}"\n'
        "position_interval_seconds = 0.2\n[filter]\nretention_seconds = 0.0\n[serve]\nbind = '127.0.0.1:0'\n"
    )
    with parts.running([([name], config) for name in ("filter", "probe", "serve")], tmp_path) as running_parts:

        def shows(*arguments: str) -> bool:
            capsys.readouterr()
            return shardpulse([*arguments, "--config", str(config)]) == 0

        shown = ["query --latest", "query", "metrics", "top --json", "query hot", "shards status", "status"]
        for words in shown:
            running_parts.until(lambda words=words: shows(*words.split()))  # type: ignore[misc]
        place = running_parts.place()
        for resource in SERVED:
            running_parts.until(lambda path=place + resource: parts.answers(path))  # type: ignore[misc]
        assert (reported(place, ""), reported(place, token(secured))) == (401, 404)  # 404: there is no such host
    assert rejections(secured) == before, running_parts.said()


def test_given_local_addresses_use_their_passwords(
    secured: Shards, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "shardpulse.toml"
    config.write_text(f'[shards]\ndirectory = "{secured.directory}"\n')
    shardpulse(["status", "--config", str(config), "--shards", str(secured.addresses[0])])
    said = "".join(capsys.readouterr())
    assert "NOAUTH" not in said
    assert str(secured.addresses[0]) in said


@pytest.mark.parametrize("path", PATHS)
def test_shards_grow_shrink_and_come_back(path: str, start_cluster: StartCluster) -> None:
    shards = start_cluster(1, secured=True, redis=redis_binary.find(path), replicas=1)
    with contextlib.closing(shards.connect()) as cluster:
        for number in range(200):
            cluster.call(f"raw:{{{number}}}", "SET", f"raw:{{{number}}}", "x" * 100)
    state = running(shards.directory)
    assert state is not None
    local_growth.add(state, str)
    master = next(shard for shard in state.shards if Path(shard.directory).name == "shard-0")
    os.kill(master.pid, 9)
    eventually(lambda: not master.alive)
    assert [Path(shard.directory).name for shard in state.revive(60)] == ["shard-0"]
    rows = shard_status.read(state.shards, credentials=state.credentials)
    assert all(row.answering and row.cluster_state == "ok" for row in rows), rows
    shards.shards = state.shards  # so that all of them are stopped
    with contextlib.closing(state.connect()) as cluster:
        assert {cluster.call(f"raw:{{{number}}}", "GET", f"raw:{{{number}}}") for number in range(200)} == {b"x" * 100}


# ------------------------------------------------------------------ whoever listens


#: The kernel asked about one socket, and its list of all, for where it cannot be asked.
WAYS = [admission.owner, admission._listed]


def test_the_owner_of_the_other_end_is_known() -> None:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET6, "::")):
        with socket.socket(family) as server:
            try:
                server.bind((host, 0))
            except OSError:  # no IPv6 here
                continue
            server.listen()
            hosts = ("127.0.0.1", "::1") if host == "::" else (host,)
            for target in hosts:
                with socket.create_connection((target, server.getsockname()[1])) as client:
                    places = client.getpeername(), client.getsockname()
                    for way in WAYS:
                        assert way(*places) == os.geteuid()  # it waits to be accepted
                    accepted, _ = server.accept()
                    for way in WAYS:
                        assert way(*places) == os.geteuid()
                    accepted.close()
    for way in WAYS:
        assert way(("127.0.0.1", 1), ("127.0.0.1", 2)) is None


SQUATTER = """
import os, socket, sys, time
os.setgid(12345); os.setuid(12345)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
accepted = sys.argv[2] == "accepts"
while True:
    if not accepted:  # connections wait in the queue
        time.sleep(60)
    connection, _ = server.accept()
    connection.settimeout(60)
    print(f"got {len(connection.recv(4096))} bytes", flush=True)
"""


def _goes_on(sender: Sender) -> bool:
    return sender.advance(time.monotonic())


@root
@pytest.mark.parametrize("manner", ["accepts", "waits"])
def test_nobody_else_is_told_the_password(manner: str, start_cluster: StartCluster, tmp_path: Path) -> None:
    shards = start_cluster(1, secured=True)
    address = shards.addresses[0]
    os.kill(shards.pids[0], 9)
    eventually(lambda: not shards.alive)
    seeds = LocalShards(str(shards.directory))
    said = tmp_path / "said"
    command = [sys.executable, "-c", SQUATTER, str(address.port), manner]
    with said.open("wb") as out, started(command, stdout=out, stderr=subprocess.STDOUT):
        eventually(lambda: "listens" in said.read_text(), says=said.read_text)
        with pytest.raises(ShardError, match=r"not trusted as a shard.*uid 12345"):
            Cluster(seeds).masters()
        with pytest.raises(ShardError, match="uid 12345"):
            Connection(address, Credentials("probe", "secret", ours()))
        sender = Sender(1, seeds, None, 5.0)
        eventually(lambda: _goes_on(sender) or "not trusted" in sender.problem, says=lambda: sender.problem)
        sender.close()
        rows = shard_status.read(shards.shards, credentials=shards.credentials)
        assert not any(row.answering for row in rows)
        if manner == "accepts":
            eventually(lambda: said.read_text().count("got") >= 3, says=said.read_text)
        assert set(said.read_text().splitlines()) <= {"listens", "got 0 bytes"}


# ------------------------------------------------------------------ the bus


def test_strangers_do_not_get_into_the_cluster(start_cluster: StartCluster, tmp_path: Path) -> None:
    require("openssl")
    shards = start_cluster(1, secured=True)
    if not shards.bus_secured:
        pytest.skip("this redis-server has no TLS")
    for secured in (False, True):  # one without TLS, one with a certificate of its own
        stranger = start_cluster(1, secured=secured)
        with contextlib.closing(Connection(stranger.addresses[0], stranger.credentials)) as connection:
            connection.call("CLUSTER", "MEET", *shards.addresses[0])
            eventually(lambda c=connection: b"handshake" not in c.call("CLUSTER", "NODES"))  # type: ignore[misc]
            assert len(connection.call("CLUSTER", "NODES").splitlines()) == 1
        with contextlib.closing(Connection(shards.addresses[0], shards.credentials)) as connection:
            assert len(connection.call("CLUSTER", "NODES").splitlines()) == 1


def test_failed_certificate_is_an_error_without_open_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_cluster: StartCluster
) -> None:
    require("openssl")
    if not start_cluster(1, secured=True).bus_secured:
        pytest.skip("this redis-server has no TLS")
    broken = tmp_path / "bin" / "openssl"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho no randomness >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    with pytest.raises(CannotCreateError, match=r"cannot create a certificate for the cluster bus .* no randomness"):
        start_shards(1, tmp_path / "state", secured=True)
    assert not (tmp_path / "state").exists()
