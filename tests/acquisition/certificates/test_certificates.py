"""``shardpulse certificates``: what OpenSSL and redis-server make of its files, and what it refuses."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from acquisition.certificates import files, making
from acquisition.cli import main as shardpulse
from acquisition.shards.servers import machine
from tests.support.processes import started
from tests.support.tls_cluster import LACK, command_with_tls
from tests.support.untested import require
from tests.support.waiting import eventually

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority of each purpose, and a certificate of each."""
    require("openssl")
    place = tmp_path_factory.mktemp("certificates")
    for purpose in ("shards", "services"):
        assert shardpulse(["certificates", "ca", purpose, "--dir", str(place / purpose)]) == 0
        issue = ["certificates", "issue", "node-1.example.org", "127.0.0.1", "::1", "--ca", str(place / purpose)]
        assert shardpulse([*issue, "--out", str(place / f"{purpose}-made")]) == 0
    return place


def verified(place: Path, purpose: str, use: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = ["openssl", "verify", "-x509_strict", "-purpose", use, "-CAfile", str(place / purpose / "ca.pem"), *more]
    return subprocess.run(
        [*command, str(place / f"{purpose}-made" / "node-1.example.org.pem")], capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("purpose", "use", "accepted"),
    [("shards", "sslserver", True), ("shards", "sslclient", True), ("shards", "smimesign", False),
     ("services", "sslserver", True), ("services", "sslclient", False)],
)  # fmt: skip
def test_openssl_accepts_a_certificate_for_its_purpose_only(made: Path, purpose: str, use: str, accepted: bool) -> None:
    done = verified(made, purpose, use)
    assert (done.returncode == 0) == accepted, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("option", "name", "accepted"),
    [("-verify_hostname", "node-1.example.org", True), ("-verify_hostname", "other.example.org", False),
     ("-verify_ip", "127.0.0.1", True), ("-verify_ip", "::1", True), ("-verify_ip", "127.0.0.2", False)],
)  # fmt: skip
def test_openssl_knows_the_names(made: Path, option: str, name: str, accepted: bool) -> None:
    assert (verified(made, "shards", "sslserver", option, name).returncode == 0) == accepted


def test_an_authority_vouches_for_nothing_of_the_other(made: Path) -> None:
    other = str(made / "services-made" / "node-1.example.org.pem")
    command = ["openssl", "verify", "-CAfile", str(made / "shards" / "ca.pem"), other]
    assert subprocess.run(command, capture_output=True).returncode != 0


def test_keys_are_nobody_elses_to_read(made: Path) -> None:
    modes = {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in made.rglob("[!.]*") if path.is_file()}
    assert modes == {".pem": 0o644, ".key": 0o600}


@pytest.fixture(scope="module")
def server(made: Path) -> Iterator[int]:
    """A redis-server with a certificate of the authority, which demands one of its clients: its port."""
    directory, port = made / "shards-made", machine.free_tls_port()
    command = [
        *command_with_tls(), "--port", "0", "--tls-port", str(port), "--tls-protocols", "TLSv1.3", "--save", "",
        "--tls-cert-file", str(directory / "node-1.example.org.pem"),
        "--tls-key-file", str(directory / "node-1.example.org.key"),
        "--tls-ca-cert-file", str(made / "shards" / "ca.pem"), "--dir", str(made),
    ]  # fmt: skip
    with started(command, stdout=subprocess.DEVNULL):
        eventually(lambda: not machine.port_is_free(port))
        yield port


def connected(made: Path, port: int, authority: str, *more: str) -> str:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_3", "-verify_return_error"]
    command += ["-CAfile", str(made / authority / "ca.pem"), *more]
    done = subprocess.run(command, capture_output=True, text=True, input="PING\r\nQUIT\r\n", timeout=20)
    return done.stdout + done.stderr


@pytest.mark.skipif(bool(LACK), reason=LACK)
def test_redis_talks_tls_1_3_with_holders_of_its_certificates(made: Path, server: int) -> None:
    pair = ["-cert", str(made / "shards-made" / "node-1.example.org.pem")]
    pair += ["-key", str(made / "shards-made" / "node-1.example.org.key"), "-verify_ip", "127.0.0.1", "-ign_eof"]
    said = connected(made, server, "shards", *pair)
    assert "+PONG" in said, said
    assert "TLSv1.3" in said
    said = connected(made, server, "services", *pair)
    assert "+PONG" not in said
    assert "verify error" in said


def test_nothing_is_overwritten(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = made / "shards" / "ca.key"
    before = key.read_bytes()
    assert shardpulse(["certificates", "ca", "shards", "--dir", str(made / "shards")]) == 73
    assert f"{key} already exists" in capsys.readouterr().err
    assert key.read_bytes() == before
    assert not list(made.rglob("*.part"))


def test_half_a_pair_is_not_completed(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("somebody's")
    assert shardpulse(["certificates", "ca", "shards", "--dir", str(tmp_path)]) == 73
    assert [path.name for path in tmp_path.iterdir()] == ["ca.pem"]


def test_it_tells_when_certificates_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = making.authority(making.SHARDS, NOW, 10)
    files.write(authority, tmp_path, files.AUTHORITY)
    files.write(making.issue(authority, ["old"], NOW - timedelta(days=9), 8), tmp_path, "old")
    files.write(making.issue(authority, ["new"], NOW + timedelta(days=1), 8), tmp_path, "new")
    paths = [str(tmp_path / f"{name}.pem") for name in ("ca", "old", "new")]
    assert shardpulse(["certificates", "show", *paths, "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in rows] == ["valid", "expired", "not yet valid"]
    assert [row["names"] for row in rows] == [[], ["old"], ["new"]]
    assert shardpulse(["certificates", "show", paths[0]]) == 0
    assert f"until {making.moment(NOW + timedelta(days=10))}; valid" in capsys.readouterr().out
    assert shardpulse(["certificates", "show", "--days", "30", paths[0]]) == 1
    assert "expires in 9 days" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["issue", "a b", "--ca", "CA", "--out", "OUT"], 2, "'a b' is neither a host name nor an IP address"),
        (["issue", "../x", "--ca", "CA", "--out", "OUT"], 2, "'../x' is neither"),
        (["issue", "*.example.org", "--ca", "CA", "--out", "OUT"], 2, "neither a host name"),
        (["issue", "x", "--ca", "CA", "--out", "OUT", "--days", "9999"], 2, "exceeds that of the authority"),
        (["issue", "x", "--ca", "NONE", "--out", "OUT"], 66, "ca.pem: No such file"),
        (["issue", "x", "--ca", "BROKEN", "--out", "OUT"], 65, "ca.pem contains no certificate"),
        (["issue", "x", "--ca", "MIXED", "--out", "OUT"], 65, "does not match the certificate beside it"),
        (["issue", "x", "--ca", "LEAF", "--out", "OUT"], 65, "was not issued by an authority"),
        (["show", "NONE/ca.pem"], 66, "cannot read"),
        (["ca", "shards", "--dir", "BROKEN/ca.pem/x"], 73, "cannot create"),
    ],
)
def test_bad_input_is_told_in_one_line(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    for name in ("BROKEN", "MIXED", "LEAF"):
        (tmp_path / name).mkdir()
    (tmp_path / "BROKEN" / "ca.pem").write_text("nothing")
    leaf = made / "shards-made" / "node-1.example.org"
    for place, certificate, key in (
        ("MIXED", made / "shards" / "ca.pem", made / "services" / "ca.key"),
        ("LEAF", leaf.with_name(f"{leaf.name}.pem"), leaf.with_name(f"{leaf.name}.key")),
    ):
        (tmp_path / place / "ca.pem").write_bytes(certificate.read_bytes())
        (tmp_path / place / "ca.key").write_bytes(key.read_bytes())
    places = {"CA": str(made / "shards")} | {name: str(tmp_path / name) for name in ("OUT", "BROKEN", "MIXED", "LEAF")}
    words = [places.get(word, word.replace("BROKEN", places["BROKEN"])) for word in arguments]
    assert shardpulse(["certificates", *words]) == code
    told = capsys.readouterr().err.strip()
    assert said in told
    assert "\n" not in told
    assert not (tmp_path / "OUT").exists()
