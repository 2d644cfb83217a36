"""A Redis 6.2 behind TLS, by a terminator before it: it knows no names that a client could verify, so it is refused."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import ConfigError
from acquisition.link.resp import Address, Connection
from acquisition.shards.servers import grants
from experiments.processes import access
from experiments.processes.access import Access
from tests.support import ROOT
from tests.support.processes import started
from tests.support.servers import OLD
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(OLD is None, reason="there is not a Redis server 6.2 in a wheel for this Python")


@contextlib.contextmanager
def terminator(context: ssl.SSLContext, behind: Path) -> Iterator[Address]:
    """A port that speaks TLS and passes everything on to a Unix socket without."""

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = listening.accept()
                with contextlib.suppress(OSError):
                    client = context.wrap_socket(plain, server_side=True)
                    server = socket.socket(socket.AF_UNIX)
                    server.connect(str(behind))
                    opened.extend((client, server))
                    for pair in ((client, server), (server, client)):
                        threading.Thread(target=pump, args=pair, daemon=True).start()

    opened: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield Address(*listening.getsockname())
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for one in opened:
                one.close()


@pytest.fixture
def old(tmp_path: Path) -> Iterator[tuple[Address, Access]]:
    known, place = access.make(tmp_path / "access"), tmp_path / "socket"
    known.certify(tmp_path, ["127.0.0.1"])
    users = tmp_path / "users.acl"
    password = grants.hashed(known.passwords[grants.READER])
    users.write_text(f"user default off\nuser {grants.READER} on #{password} ~* +@all\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "shard.pem", tmp_path / "shard.key")
    assert OLD is not None
    command = [OLD.path, "--port", "0", "--unixsocket", str(place), "--save", "", "--aclfile", str(users)]
    with started([*command, "--dir", str(tmp_path), "--logfile", "log"]):
        eventually(place.exists)
        with terminator(context, place) as address:
            yield address, known


def test_it_is_refused_in_words(
    old: tuple[Address, Access], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, known = old
    told = f"shard {address} is {OLD and OLD.name}: TLS requires 7.0 or newer"
    with pytest.raises(ConfigError) as error:
        Connection(address, known.credentials(grants.READER), 20.0)
    assert str(error.value) == told
    config = tmp_path / "shardpulse.toml"
    config.write_text(known.section(grants.READER, [address], "timeout_seconds = 20.0\n"))
    assert shardpulse(["query", "--config", str(config)]) == 78
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["probe"], ["filter"], ["serve"], ["archive", "run"], ["status"], ["top", "--json"], ["metrics"],
        ["shards", "upgrade"], *(["shards", action, "--addresses"] for action in ("form", "status", "balance")),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_command_starts_with_it(old: tuple[Address, Access], tmp_path: Path, words: list[str]) -> None:
    address, known = old
    config = tmp_path / "shardpulse.toml"
    more = f'[probe]\nring_path = "{tmp_path}/ring"\n[archive]\nurl = "{tmp_path}/archive.db"\n'
    config.write_text(known.section(grants.READER, [address], f"timeout_seconds = 20.0\n{more}"))
    addresses = [str(address)] * (words[-1] == "--addresses")
    command = [sys.executable, "-m", "acquisition", *words, *addresses, "--config", str(config)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 78, done
    assert f"shard {address} is {OLD and OLD.name}: TLS requires 7.0 or newer" in done.stderr
