"""Reading: free on loopback, elsewhere with a token and TLS. Writing: with a token of its own everywhere."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.config.serve import Serve
from acquisition.errors import EXIT_CONFIG, EXIT_NO_INPUT, ConfigError, NoInputError
from acquisition.shards.servers.launch import Shards
from filters.service.http.access import Access, access, check, is_loopback
from filters.service.http.problem import Problem
from tests.support.serving import Serving
from tests.support.waiting import PATIENCE

TOKEN = "correct-horse-battery-staple"
FREE = Access("127.0.0.1", 0)
DEMANDING = FREE._replace(token=TOKEN.encode())
REPORT = json.dumps({"vm": "v", "source": "a", "destination": "b", "phase": "started"}).encode()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of the service, with a certificate of the authority for services."""
    place = tmp_path_factory.mktemp("tls")
    for purpose in ("services", "shards"):
        assert shardpulse(["certificates", "ca", purpose, "--dir", str(place / purpose)]) == 0
    issue = ["certificates", "issue", "localhost", "127.0.0.1", "--ca", str(place / "services"), "--out", str(place)]
    assert shardpulse(issue) == 0
    token = place / "token"
    token.touch(0o600)
    token.write_text(f"{TOKEN}\n")
    pair = {"tls_certificate": str(place / "localhost.pem"), "tls_key": str(place / "localhost.key")}
    return {**pair, "token_file": str(token)}


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "[::]", "monitor.example"])
def test_elsewhere_demands_a_token_and_tls_and_says_how(files: dict[str, str], host: str) -> None:
    with pytest.raises(ConfigError, match=r"token.*urandom.*TLS.*shardpulse certificates issue NAME.*127\.0\.0\.1"):
        access(Serve(bind=f"{host}:7680"))
    with pytest.raises(ConfigError, match="requires TLS"):
        access(Serve(bind=f"{host}:7680", token_file=files["token_file"]))
    chosen = access(Serve(bind=f"{host}:7680", **files))
    assert (chosen.token.decode(), chosen.loopback) == (TOKEN, False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "localhost"])
def test_loopback_demands_nothing(host: str) -> None:
    assert access(Serve(bind=f"{host}:0")).loopback


def test_files_that_are_wrong_are_named(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="token_file"):
        access(Serve(token_file=str(tmp_path / "none")))
    weak = tmp_path / "weak"
    weak.touch(0o600)
    weak.write_text("short")
    with pytest.raises(ConfigError, match="16 printable"):
        access(Serve(token_file=str(weak)))
    weak.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        access(Serve(token_file=str(weak)))
    with pytest.raises(ConfigError, match="must be set together"):
        access(Serve(tls_certificate=files["tls_certificate"]))
    weak.chmod(0o600)
    with pytest.raises(ConfigError, match="do not match or are not PEM files"):
        access(Serve(tls_certificate=files["tls_certificate"], tls_key=str(weak)))


@pytest.mark.parametrize(
    "value",
    [b"", b"Bearer", b"Bearer wrong", b"Basic " + TOKEN.encode(), TOKEN.encode(), b"Bearer \xff", b"Bearer " * 999],
)
def test_any_other_token_is_refused(value: bytes) -> None:
    with pytest.raises(Problem) as caught:
        check({"headers": [(b"authorization", value)] if value else []}, DEMANDING)
    assert caught.value.status == 401
    assert b"www-authenticate" in caught.value.headers
    check({"headers": [(b"authorization", b"bearer " + TOKEN.encode())]}, DEMANDING)


@pytest.mark.parametrize("value", ["localhost", "LOCALHOST:80", "127.0.0.1:7680", "[::1]", "[::1]:7680"])
def test_without_a_token_this_machine_may_be_asked_for(value: str) -> None:
    check({"headers": [(b"host", value.encode())]}, FREE)


@pytest.mark.parametrize(
    "values",
    [
        [], [""], ["evil.com"], ["localhost:80@evil.com"], ["localhost@evil.com"], ["[::1]evil.com"], ["[::1]:8:e"],
        ["[localhost]"], ["localhost.evil.com"], ["localhost:"], ["localhost:80 "], ["localhost/e"], ["127.0.0.1\n"],
        ["localhost", "evil.com"], ["localhost", "localhost"], ["[::1"], ["::1"], ["\xff"],
    ],
)  # fmt: skip
def test_without_a_token_any_other_host_is_refused(values: list[str]) -> None:
    with pytest.raises(Problem) as caught:
        check({"headers": [(b"host", value.encode("latin-1")) for value in values]}, FREE)
    assert caught.value.status == 421


def test_names_of_this_machine() -> None:
    assert [is_loopback(name) for name in ("localhost", "127.0.0.1", "::1", "localhost.example", "10.0.0.1", "")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


def test_token_and_tls_work(shards: Shards, tmp_path: Path, files: dict[str, str]) -> None:
    lines = "".join(f"{name} = '{value}'\n" for name, value in files.items())
    with Serving(tmp_path, shards.addresses, lines, "https") as service:
        place = Path(files["token_file"]).parent
        trusting = ssl.create_default_context(cafile=place / "services" / "ca.pem")
        of_shards = ssl.create_default_context(cafile=place / "shards" / "ca.pem")

        def ask(path: str, headers: dict[str, str], believing: ssl.SSLContext = trusting) -> tuple[int, bytes]:
            connection = http.client.HTTPSConnection("127.0.0.1", service.port, timeout=5, context=believing)
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            found = answer.status, answer.read()
            connection.close()
            return found

        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer certificate"):
            ask("/v1/hosts", {}, believing=of_shards)
        with (
            socket.create_connection(("127.0.0.1", service.port)) as plain,
            pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"),
        ):
            trusting.wrap_socket(plain, server_hostname="other.example.org")
        for path in ("/v1/hosts", "/metrics", "/openapi.json", "/v1/stream", "/v1/nothing"):
            status, body = ask(path, {"Host": "anything.example"})
            assert (status, json.loads(body)["type"]) == (401, "/problems/unauthorized")
        status, body = ask("/openapi.json", {"Authorization": f"Bearer {TOKEN}", "Host": "anything.example"})
        assert status == 200
        assert json.loads(body)["security"] == [{"token": []}]
        other = "another-token-of-some-length"
        Path(files["token_file"]).write_text(f"{other}\n")
        os.kill(service.process.pid, signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while ask("/openapi.json", {"Authorization": f"Bearer {other}"})[0] != 200:
            assert time.monotonic() < deadline
        assert ask("/openapi.json", {"Authorization": f"Bearer {TOKEN}"})[0] == 401
        Path(files["token_file"]).write_text("")
        os.kill(service.process.pid, signal.SIGHUP)
        while "unchanged" not in service.log.read_text():
            assert time.monotonic() < deadline
        assert ask("/openapi.json", {"Authorization": f"Bearer {other}"})[0] == 200
        Path(files["token_file"]).write_text(f"{TOKEN}\n")
        assert service.raw(b"GET /v1/hosts HTTP/1.1\r\n\r\n", 1.0)[:12] != b"HTTP/1.1 200"
        assert service.end() == 0


def test_writing_needs_a_token_of_its_own_on_loopback(shards: Shards, tmp_path: Path, files: dict[str, str]) -> None:
    with Serving(tmp_path, shards.addresses, f"token_file = '{files['token_file']}'\n") as service:
        for token in ("", "wrong", TOKEN):  # that for reading is not enough
            reply = service.post(REPORT, token=token)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Bearer realm="shardpulse"')
            assert token != TOKEN or f"writing requires the token in {tmp_path}/writer.token" in reply.json["detail"]
        assert service.ask("/openapi.json").status == 401
        assert service.ask("/openapi.json", headers={"Authorization": f"Bearer {service.token}"}).status == 200
        assert service.post(REPORT).status in (404, 503)


def test_without_a_token_for_writing_nobody_writes(shards: Shards, tmp_path: Path) -> None:
    with Serving(tmp_path, shards.addresses) as service:
        (tmp_path / "writer.token").unlink()
        reply = service.post(REPORT)
        assert reply.status == 401
        assert "writer.token: No such file or directory): create one (head -c 32" in reply.json["detail"]


def test_one_caller_cannot_flood(shards: Shards, tmp_path: Path) -> None:
    with Serving(tmp_path, shards.addresses, "[serve.limits]\nwrites_per_second = 0.2\n") as service:
        assert [service.post(REPORT, token="wrong").status for _ in range(3)] == [401] * 3  # strangers use up nothing
        replies = [service.post(REPORT) for _ in range(3)]
        assert [reply.status == 429 for reply in replies] == [False, False, True]
        assert 1 <= int(replies[2].headers["retry-after"]) <= 5
        assert "writes_per_second (0.2): retry in" in replies[2].json["detail"]
        other = http.client.HTTPConnection("127.0.0.1", service.port, PATIENCE, source_address=("127.0.0.2", 0))
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {service.token}"}
        other.request("POST", "/v1/migrations", REPORT, headers)
        assert other.getresponse().status != 429
        other.close()


def test_the_same_token_for_reading_and_writing_is_refused(files: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="contain the same token: writing requires a separate one"):
        access(Serve(token_file=files["token_file"], write_token_file=files["token_file"]))


def serve(*arguments: str, config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "acquisition", "serve", "--config", str(config), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE)


def test_the_command_refuses_to_start_unsafely(tmp_path: Path) -> None:
    config = tmp_path / "shardpulse.toml"
    config.write_text("[serve]\nbind = '0.0.0.0:0'\n")
    done = serve(config=config)
    assert done.returncode == EXIT_CONFIG
    assert "token" in done.stderr
    assert "shardpulse certificates ca services" in done.stderr
    config.write_text("[serve]\ntls_certificate = '/nonexistent'\ntls_key = '/nonexistent'\n")
    assert serve(config=config).returncode == EXIT_NO_INPUT
    config.write_text("[serve]\nbind = 'nonsense'\n")
    assert serve(config=config).returncode == EXIT_CONFIG
