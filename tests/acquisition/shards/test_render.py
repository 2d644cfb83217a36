"""``shardpulse shards render``: a redis-server runs with what it prints, and lets in nobody else."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from acquisition.cli import main as shardpulse
from acquisition.shards.servers import grants, machine, redis_binary, rendering
from tests.support import ROOT
from tests.support.processes import started
from tests.support.tls_cluster import LACK
from tests.support.untested import require


class Run(NamedTuple):
    port: int
    etc: Path
    passwords: Path
    said: str  #: what the server told systemd


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert shardpulse(["shards", "render", *arguments]) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A server with rendered files and certificates of `shardpulse certificates`, started as systemd starts it."""
    require("openssl")
    if LACK:
        pytest.skip(LACK)
    place = tmp_path_factory.mktemp("rendered")
    etc, data, passwords, port = place / "etc", place / "data", place / "passwords", machine.free_ports(1)[0]
    shard = ["--announce", "localhost", "--bind", "127.0.0.1", "--port", str(port), "--maxmemory", str(64 << 20)]
    shard += ["--etc", str(etc), "--data", str(data), "--passwords", str(passwords), "--connections", "200"]
    data.mkdir()
    authority = str(place / "authority")
    assert shardpulse(["certificates", "ca", "shards", "--dir", authority]) == 0
    names = ["localhost", "127.0.0.1", "--ca", authority, "--out", str(etc)]
    assert shardpulse(["certificates", "issue", *names]) == 0
    for kind in ("pem", "key"):
        (etc / f"localhost.{kind}").rename(etc / f"shard.{kind}")
    shutil.copy(place / "authority" / "ca.pem", etc)
    for what, name in (("configuration", "redis.conf"), ("users", "users.acl")):
        with pytest.MonkeyPatch.context() as patch, (etc / name).open("w") as file:
            patch.setattr("sys.stdout", file)
            assert shardpulse(["shards", "render", what, *shard]) == 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(place / "notify"))
        notify.settimeout(20)
        command = [redis_binary.find().path, str(etc / "redis.conf")]
        environment = {"NOTIFY_SOCKET": str(place / "notify")}
        with (place / "log").open("wb") as log, started(command, env=environment, stdout=log, cwd=data):
            said = ""
            while "READY=1" not in said:
                said += notify.recv(4096).decode()
            yield Run(port, etc, passwords, said)


def asked(run: Run, *commands: str, user: str = "", version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> str:
    """What the server answers, by a client that believes its authority."""
    context = ssl.create_default_context(cafile=str(run.etc / "ca.pem"))
    context.minimum_version = context.maximum_version = version
    login = [f"AUTH {user} {(run.passwords / user).read_text().strip()}"] if user else []
    with (
        socket.create_connection(("127.0.0.1", run.port), 20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as made,
        made.makefile("rb") as answers,
    ):
        made.sendall("".join(f"{command}\r\n" for command in [*login, *commands, "QUIT"]).encode())
        return answers.read().decode()


def test_it_is_ready_for_systemd_and_is_one_shard_of_a_cluster(server: Run) -> None:
    assert "READY=1" in server.said
    told = asked(server, "CLUSTER NODES", "CONFIG GET cluster-preferred-endpoint-type", "INFO memory", user="operator")
    assert f":{server.port}@{server.port + machine.BUS_OFFSET},localhost" in told
    assert "hostname" in told
    assert f"maxmemory:{64 << 20}" in told


def test_a_replica_stays_where_it_was_placed(server: Run) -> None:
    """Redis knows no machines: it would send one to a master that has lost its own."""
    told = asked(server, "CONFIG GET cluster-migration-barrier", user="operator").split()
    assert int(told[told.index("cluster-migration-barrier") + 2]) >= 1000


def test_without_a_user_nothing_is_answered(server: Run) -> None:
    told = asked(server, "PING", "GET x", "INFO", "AUTH default x")
    assert told.count("-NOAUTH") == 3
    assert "-WRONGPASS" in told


@pytest.mark.parametrize("user", grants.USERS)
def test_every_user_logs_in_with_its_file(server: Run, user: str) -> None:
    assert asked(server, "CONFIG GET dir" if user == "operator" else "FLUSHALL", user=user).startswith("+OK")
    assert "-NOPERM" in asked(server, "FLUSHALL", user=user)


def test_it_speaks_tls_1_3_and_nothing_else(server: Run) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        asked(server, "PING", version=ssl.TLSVersion.TLSv1_2)
    with socket.create_connection(("127.0.0.1", server.port), 20) as plain:
        plain.sendall(b"PING\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"PONG" not in plain.recv(100)


def test_passwords_are_made_once_and_are_nobody_elses_to_read(server: Run, capsys: pytest.CaptureFixture[str]) -> None:
    files = {path.name: path for path in server.passwords.glob("[!.]*")}
    assert set(files) == set(grants.USERS)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o600}
    text = (server.etc / "users.acl").read_text()
    assert printed(capsys, "users", "--passwords", str(server.passwords)) == text
    assert not any(path.read_text().strip() in text for path in files.values())


def test_hosts_get_users_of_their_own(server: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "users", "--passwords", str(tmp_path), "--host", "web-1", "--host", "web-2.example.org")
    assert "user probe on" not in text
    assert [line.split()[1] for line in text.splitlines() if "probe" in line] == [
        "probe@web-1",
        "probe@web-2.example.org",
    ]
    assert text.count("{*}") == printed(capsys, "users", "--passwords", str(server.passwords)).count("{*}") - 5


def test_a_machines_shards_are_printed_at_once_as_one_by_one(server: Run, capsys: pytest.CaptureFixture[str]) -> None:
    shared = ["--announce", "a", "--bind", "::1", "--maxmemory", "99999999", "--passwords", str(server.passwords)]
    places = ["--etc", "/etc/x", "--data", "/var/lib/x"]
    found = json.loads(printed(capsys, "machine", *shared, *places, "--shard", "7600:0", "--shard", "7701:3"))
    assert set(found) == {"unit", "users", "configurations"}
    assert found["users"] == printed(capsys, "users", *shared)
    for port, core in (("7600", "0"), ("7701", "3")):
        own = [*shared, "--etc", f"/etc/x-{port}", "--data", f"/var/lib/x-{port}", "--port", port, "--core", core]
        assert found["configurations"].pop(port) == printed(capsys, "configuration", *own)
        unit = printed(capsys, "unit", *own).replace(f"shard a:{port}", f"shard at port {port}")
        assert found["unit"].replace("%i", port) == unit
    assert not found["configurations"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze not found")
@pytest.mark.parametrize("data", ["/var/lib/shardpulse-shard", "/srv/shard"])
def test_systemd_understands_the_unit(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = tmp_path / "shard.service"
    text = printed(capsys, "unit", "--announce", "a", "--maxmemory", "1000000000", "--user", "root", "--data", data)
    unit.write_text(text)
    assert f"MemoryMax={1_250_000_000 + 12_000 * 40_000 + (64 << 20)}" in text
    assert "LimitNOFILE=13024" in text
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    told = [line for line in done.stderr.splitlines() if "shard.service" in line and "not executable" not in line]
    assert told == []


def test_the_unit_starts_the_chosen_server_as_its_user(capsys: pytest.CaptureFixture[str]) -> None:
    shared = ["unit", "--announce", "a", "--maxmemory", "1000000000", "--server"]
    for server in redis_binary.NAMES:
        text = printed(capsys, *shared, server)
        assert f"ExecStart=/usr/bin/{server} /etc/shardpulse/shard/redis.conf" in text
        assert f"User={server.removesuffix('-server')}\n" in text
        assert f" -/usr/bin/{server} " in text.replace("=-", "= -")


def test_a_shard_with_tls_as_a_module_loads_it(server: Run, capsys: pytest.CaptureFixture[str]) -> None:
    shared = ["configuration", "--announce", "a", "--maxmemory", "1000000000", "--passwords", str(server.passwords)]
    text = printed(capsys, *shared, "--tls-module", "/usr/lib/valkey/valkey-tls.so")
    assert 'loadmodule "/usr/lib/valkey/valkey-tls.so"\n' in text
    assert "loadmodule" not in printed(capsys, *shared)


def test_the_template_of_a_shard_is_hardened_as_the_rendered_unit_is() -> None:
    template = (ROOT / "deploy" / "systemd" / "shardpulse-shard@.service").read_text()
    assert rendering.HARDENING in template


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["configuration", "--maxmemory", "99999999"], 2, "missing --announce"),
        (["unit", "--announce", "a"], 2, "missing --maxmemory"),
        (["users"], 2, "missing --passwords"),
        (["unit", "--announce", "a\nExecStart=x", "--maxmemory", "99999999"], 2, "not a name or an address"),
        (["unit", "--announce", "a", "--bind", "x y", "--maxmemory", "99999999"], 2, "not a name or an address"),
        (["unit", "--announce", "a", "--etc", "/a b", "--maxmemory", "99999999"], 2, "path without blanks"),
        (["unit", "--announce", "a", "--user", "a b", "--maxmemory", "99999999"], 2, "not a system user name"),
        (["machine", "--announce", "a", "--maxmemory", "99999999", "--passwords", "DIR"], 2, "missing --shard"),
        (["users", "--passwords", "DIR", "--host", "a b"], 2, "not a host name"),
        (["users", "--passwords", "OPEN"], 78, "readable by other users"),
        (["users", "--passwords", "EMPTY"], 66, "contains no password"),
        (["users", "--passwords", "BLANK"], 78, "blanks or quotes"),
        (["users", "--passwords", "/dev/null/x"], 73, "cannot store passwords"),
    ],
)
def test_bad_input_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    for name, text, mode in (("OPEN", "x", 0o644), ("EMPTY", "\n", 0o600), ("BLANK", "a b", 0o600)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "filter").touch(mode)
        (tmp_path / name / "filter").write_text(text)
    words = [str(tmp_path / word) if word in ("DIR", "OPEN", "EMPTY", "BLANK") else word for word in arguments]
    assert shardpulse(["shards", "render", *words]) == code
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1
    assert not told.out
