"""Off loopback nothing starts without TLS and users: every command refuses in words, with the exit code of a wrong
configuration; what runs goes on running, and says so."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from acquisition.cli import main as shardpulse
from acquisition.config import endpoints
from acquisition.config.settings import Shards as Settings
from acquisition.errors import EXIT_CONFIG, AdmissionError
from acquisition.link.resp import Address, Connection
from acquisition.shards.servers import redis_binary
from acquisition.shards.servers.launch import Shards
from experiments.processes import access
from tests.support.fixture_types import StartCluster
from tests.support.own_address import own_address
from tests.support.processes import started
from tests.support.waiting import eventually

HERE = own_address()
TOLD = "is not on loopback: TLS and a user are required; set [shards] tls_ca, username and password_file"
VMSTAT = Path(__file__).parents[2] / "fixtures" / "vmstat"
_RUNTIME_BIND = (7,)  #: the release from which on a server takes other addresses while it runs

pytestmark = pytest.mark.skipif(not HERE, reason="this machine has no address but loopback")

_READERS = [
    ["query"], ["query", "--latest"], ["query", "hot"], ["query", "moves"], ["status"], ["metrics"],
    ["archive", "status"], ["top", "--json"], ["top", "--once"], ["top", "--lines", "--count", "1"],
    ["top", "--wait", "60", "--json"],
]  # fmt: skip
_PARTS = [["probe"], ["filter"], ["archive", "run"], ["serve"]]
_PUSH = ["replay", "vmstat", "--push", str(VMSTAT / "hostile-repeated-header.txt")]
#: With --addresses, and the words between.
_OF_OTHERS = [
    ["form"], ["status"], ["balance"], ["certificates"], ["add", "{}"], ["remove", "{}"], ["drain", "{}"],
    ["handover", "{}"], ["replicas", "{}", "--each", "0"], ["passwords", "begin", "probe", "--passwords", "secrets"],
]  # fmt: skip


class Started(NamedTuple):
    """A command that was started, and what it said."""

    process: subprocess.Popen[bytes]
    log: Path

    def says(self, *words: str) -> None:
        """Wait until it has said all of them."""
        eventually(lambda: all(word in self.log.read_text() for word in words), says=self.log.read_text)

    def forget(self) -> None:
        """What it has said so far does not count."""
        os.truncate(self.log, 0)


@contextlib.contextmanager
def running(words: Sequence[str], config: Path) -> Iterator[Started]:
    """A command of this configuration, until the end of the block."""
    log = config.parent / f"{words[0]}.log"
    with log.open("ab") as output:
        command = [sys.executable, "-m", "acquisition", *words, "--config", str(config)]
        with started(command, stdout=output, stderr=output) as process:
            yield Started(process, log)


def configured(directory: Path, address: object, more: str = "") -> Path:
    """A configuration with this address and all that parts want beside it."""
    config = directory / "shardpulse.toml"
    config.write_text(
        f'[host]\nname = "here"\n[shards]\naddresses = ["{address}"]\ntimeout_seconds = 20.0\n{more}'
        f'[probe]\ninterval_seconds = 0.2\nring_path = "{directory}/ring"\n[serve]\nbind = "127.0.0.1:0"\n'
        f'[archive]\nurl = "{directory}/archive.db"\n'
    )
    return config


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """Somebody beyond loopback, to whom nobody may come."""
    with socket.create_server((HERE, 0)) as server:
        yield server
        server.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            server.accept()


def refuses(words: Sequence[str], config: Path, capsys: pytest.CaptureFixture[str], told: str) -> None:
    """A command ends at once with exit code 78 and one line."""
    capsys.readouterr()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        assert shardpulse([*words, "--config", str(config)]) == EXIT_CONFIG, words
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    said = capsys.readouterr().err
    assert told in said, words
    assert said.count("\n") == 1, said


# ------------------------------------------------------------------ addresses that are configured


def test_every_command_refuses_an_address_of_another_machine(
    listening: socket.socket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = Address(*listening.getsockname()[:2])
    config, there = configured(tmp_path, address), str(address)
    of_others = [["shards", *(word.format(there) for word in words), "--addresses", there] for words in _OF_OTHERS]
    for words in (*_READERS, *_PARTS, _PUSH, ["shards", "upgrade"], *of_others):
        refuses(words, config, capsys, f"shard {address} {TOLD}")
    nowhere = configured(tmp_path, "127.0.0.1:1")
    for words in (*_PARTS, _READERS[0], _READERS[4], _READERS[5], _PUSH):
        refuses([*words, "--shards", there], nowhere, capsys, f"shard {address} {TOLD}")


def test_what_is_lacking_is_refused_each_by_itself(
    listening: socket.socket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if lack := access.missing():
        pytest.skip(lack)
    known = access.make(tmp_path / "access")
    password = f'username = "reader"\npassword_file = "{known.password_file("reader")}"\n'
    for more in (password, f'tls_ca = "{known.ca}"\n', f'username = "reader"\ntls_ca = "{known.ca}"\n'):
        config = configured(tmp_path, Address(*listening.getsockname()[:2]), more)
        for words in (["query"], ["probe"], ["serve"], ["archive", "run"], ["filter"]):
            refuses(words, config, capsys, TOLD)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "[::1]", "0.0.0.0", "localhost", "no.invalid"])
def test_loopback_needs_neither_and_unknown_name_is_retried(host: str, tmp_path: Path) -> None:
    settings = Settings(addresses=[f"{host}:1"], directory=str(tmp_path))
    assert not endpoints.credentials(settings).password


def test_one_address_of_another_machine_among_others_is_one_too_many(tmp_path: Path) -> None:
    settings = Settings(addresses=["127.0.0.1:1", f"{HERE}:7600"], directory=str(tmp_path))
    with pytest.raises(AdmissionError, match=f"shard {HERE}:7600 is not on loopback"):
        endpoints.credentials(settings)


# ------------------------------------------------------------------ a configuration that is read again


@pytest.mark.usefixtures("cluster")  # stores the layout, which a test before may have taken away
@pytest.mark.parametrize("words", [["probe"], ["filter"], ["serve"]], ids=" ".join)
def test_a_part_that_runs_keeps_its_configuration_and_tells_the_error(
    words: list[str], shards: Shards, listening: socket.socket, tmp_path: Path
) -> None:
    well = {"probe": "sending to shard", "filter": "smoothing 64 partitions on", "serve": "http://127.0.0.1:"}
    kept = {"probe": "configuration unchanged", "filter": "configuration unchanged", "serve": "log levels unchanged"}
    (name,) = words
    config = configured(tmp_path, shards.addresses[0])
    with running(words, config) as part:
        part.says(well[name])
        part.forget()
        address = Address(*listening.getsockname()[:2])
        configured(tmp_path, address)
        part.process.send_signal(signal.SIGHUP)
        part.says(f"shard {address} {TOLD}", kept[name])
        part.forget()
        configured(tmp_path, shards.addresses[0], 'directory = "/nowhere"\n' if name == "probe" else "")
        part.process.send_signal(signal.SIGHUP)  # and it can be mended
        part.says({"probe": "in effect", "filter": "configuration reloaded", "serve": "reloaded"}[name])
        assert part.process.poll() is None


# ------------------------------------------------------------------ shards that name others


@pytest.fixture
def announcing(start_cluster: StartCluster) -> Iterator[Callable[[str], Address]]:
    """A shard on loopback that can be told where it says that it is."""
    if redis_binary.find().release < _RUNTIME_BIND:
        pytest.skip("a server before Redis 7 takes no other address while it runs")
    (address,) = start_cluster(1).addresses
    with contextlib.closing(Connection(address)) as connection:

        def announce(place: str) -> Address:
            assert connection.call("CONFIG", "SET", "bind", f"127.0.0.1 {HERE}") == b"OK"
            assert connection.call("CONFIG", "SET", "cluster-announce-ip", place) == b"OK"
            connection.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            return address

        yield announce


def test_a_cluster_that_names_a_shard_of_another_machine_is_refused(
    announcing: Callable[[str], Address], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = announcing(HERE)
    config = configured(tmp_path, address)
    told = f"shard {HERE}:{address.port} {TOLD}"
    for words in (*_READERS[:8], *_PARTS[1:], _PUSH, ["shards", "upgrade"]):
        if words != ["archive", "status"]:
            refuses(words, config, capsys, told)
    for words in (["status"], ["balance"]):
        refuses(["shards", *words, "--addresses", str(address)], config, capsys, told)
    with running(["probe"], config) as probe:  # it becomes another process, which could not be this one
        assert probe.process.wait(60) == EXIT_CONFIG
        assert told in probe.log.read_text()


def test_running_parts_report_foreign_addresses_and_recover(
    announcing: Callable[[str], Address], tmp_path: Path
) -> None:
    address = announcing("127.0.0.1")
    config = configured(tmp_path, address)
    well = {"probe": "sending to shard", "filter": "smoothing 64 partitions on", "archive": "following 64 partitions"}
    with contextlib.ExitStack() as stack:
        made = {words[0]: stack.enter_context(running(words, config)) for words in _PARTS}
        for name, words in well.items():
            made[name].says(words)
        made["serve"].says("http://")
        for part in made.values():
            part.forget()
        announcing(HERE)
        for part in made.values():
            part.says(f"shard {HERE}:{address.port} {TOLD}")
        announcing("127.0.0.1")
        again = {
            "probe": "sending again", "filter": "again", "archive": "shards are responding again",
            "serve": "shards readable again",
        }  # fmt: skip
        for name, part in made.items():
            part.says(again[name])
            assert part.process.poll() is None
