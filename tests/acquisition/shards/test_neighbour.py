"""Another user of this machine reads nothing, writes nothing and redirects nobody: he really tries, as another uid."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import ConfigError, ShardError, ShardpulseError
from acquisition.link.local_shards import STATE_FILE, LocalShards
from acquisition.link.resp import Connection
from acquisition.link.trust.credentials import PASSWORDS_FILE
from acquisition.shards.servers import machine, redis_binary
from acquisition.shards.servers.launch import Shards, start_shards
from acquisition.snapshot.visibility import roster
from experiments.processes import access
from tests.support import ROOT
from tests.support.fixture_types import StartCluster
from tests.support.neighbour import UID, Task
from tests.support.processes import started
from tests.support.servers import PATHS
from tests.support.untested import require
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
PARTS = ("filter", "probe", "serve")
PATIENCE = 60.0


def neighbour(manner: str, task: Task) -> list[str]:
    return [sys.executable, str(ROOT / "tests" / "support" / "neighbour.py"), manner, json.dumps(task._asdict())]


def what_worked(task: Task) -> list[str]:
    done = subprocess.run(neighbour("try", task), stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that everybody can get to, unlike those of pytest."""
    path = Path(tempfile.mkdtemp(prefix="shardpulse-neighbour-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def certificate(place: Path) -> str:
    """A certificate of the neighbour's own with its key."""
    require("openssl")
    path = str(place / "own.pem")
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subprocess.run([*request, "-subj", "/CN=x", "-keyout", path, "-out", f"{path}.2"], check=True, capture_output=True)
    Path(path).write_text(Path(path).read_text() + Path(f"{path}.2").read_text())
    Path(path).chmod(0o644)
    return path


def tls_port(shards: Shards, number: int) -> int:
    words = (Path(shards.shards[number].directory) / "redis.conf").read_text().split()
    return int(words[words.index("tls-port") + 1])


def processes_of(shards: Shards, parts: list[subprocess.Popen[bytes]]) -> list[int]:
    return [*shards.pids, *(part.pid for part in parts)]


class Pipeline:
    """Secured shards with probe, filter and service at work, and what readers say."""

    def __init__(self, place: Path, path: str, stack: contextlib.ExitStack) -> None:
        redis, replicas = redis_binary.find(path), 0
        with contextlib.suppress(ShardpulseError):  # without TLS a replica says its password at the port of its master
            redis, replicas = access.with_tls(redis), 1
        self.shards = stack.enter_context(
            start_shards(2, place / "state", maxmemory_bytes=64 << 20, redis=redis, secured=True, replicas=replicas)
        )
        self.ring = place / "ring"
        self.config = place / "shardpulse.toml"
        self.config.write_text(
            f'[shards]\ndirectory = "{self.shards.directory}"\ntimeout_seconds = 1.0\n[probe]\ninterval_seconds = 0.2\n'
            f'ring_path = "{self.ring}"\n[serve]\nbind = "127.0.0.1:0"\n'
        )
        self.said = place / "said"
        log = stack.enter_context(self.said.open("wb"))
        command = [sys.executable, "-m", "acquisition"]
        self.parts = [
            stack.enter_context(
                started([*command, name, "--config", str(self.config)], stdout=subprocess.DEVNULL, stderr=log)
            )
            for name in PARTS
        ]

    def answers(self, *arguments: str) -> bool:
        return shardpulse([*arguments, "--config", str(self.config)]) == 0

    def goes_on(self, seconds: float = PATIENCE) -> None:
        for arguments in (["query"], ["status"], ["query", "hot"], ["shards", "status"]):
            eventually(lambda a=arguments: self.answers(*a), seconds, says=self.said.read_text)  # type: ignore[misc]


def test_shards_without_users_are_an_open_door(start_cluster: StartCluster) -> None:
    worked = what_worked(Task([start_cluster(1).addresses[0].port]))
    assert {line.partition(" at ")[0] for line in worked} >= {"CONFIG SET maxmemory 1", "SET x y", "FLUSHALL"}


@pytest.mark.parametrize("path", PATHS)
def test_a_neighbour_reads_and_writes_nothing(path: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.ExitStack() as stack:
        pipeline = Pipeline(place, path, stack)
        pipeline.goes_on()
        shards, own = pipeline.shards, certificate(place)
        tls = range(len(shards.shards)) if shards.bus_secured else range(0)
        state = [str(file) for file in shards.directory.rglob("*")]
        assert {STATE_FILE, PASSWORDS_FILE, "users.acl", "redis.conf"} <= {Path(file).name for file in state}
        task = Task(
            ports=[address.port for address in shards.addresses],
            tls_ports=[tls_port(shards, number) for number in tls],
            bus_ports=[shards.addresses[number].port + machine.BUS_OFFSET for number in tls],
            files=[*state, str(pipeline.ring)],
            directories=[str(shards.directory), *(shard.directory for shard in shards.shards)],
            pids=processes_of(shards, pipeline.parts),
            certificate=own,
        )
        assert not what_worked(task)
        pipeline.goes_on()


@pytest.mark.parametrize("path", PATHS)
def test_a_neighbour_at_the_port_of_a_dead_shard_is_told_nothing(
    path: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as stack:
        pipeline = Pipeline(place, path, stack)
        pipeline.goes_on()
        shards, own = pipeline.shards, certificate(place)
        dead = shards.shards[0]
        secured = shards.bus_secured
        task = Task(
            ports=[dead.address.port],
            tls_ports=[tls_port(shards, 0)] if secured else [],
            bus_ports=[dead.address.port + machine.BUS_OFFSET] if secured else [],
            certificate=own,
        )
        os.kill(dead.pid, 9)
        eventually(lambda: not dead.alive)
        heard = place / "heard"
        with heard.open("wb") as out, started(neighbour("squat", task), stdout=out, stderr=subprocess.STDOUT):
            eventually(lambda: "listens" in heard.read_text(), says=heard.read_text)
            for arguments in (["query"], ["status"], ["query", "hot"], ["shards", "status"], ["shards", "balance"]):
                pipeline.answers(*arguments)  # of the other shard, or nothing
            for port in task.ports + task.tls_ports + task.bus_ports:  # clients, the replica, the other shards
                eventually(lambda p=port: f"came {p}\n" in heard.read_text(), PATIENCE, says=heard.read_text)  # type: ignore[misc]
            came = f"came {dead.address.port}\n"
            eventually(lambda: heard.read_text().count(came) > 20, PATIENCE, says=heard.read_text)
            with pytest.raises(ShardError, match=f"uid {UID}"):
                Connection(dead.address, shards.credentials)
            with pytest.raises(ShardpulseError):
                shards.revive(5.0)
            assert "heard" not in heard.read_text()
        assert all(part.poll() is None for part in pipeline.parts), pipeline.said.read_text()
        shards.revive(PATIENCE)
        monkeypatch.setattr(roster, "KEPT", 2.0)  # whoever begins to read says for a minute that hosts may be missing
        pipeline.goes_on()


def test_a_state_that_a_neighbour_laid_out_leads_nobody(place: Path, start_cluster: StartCluster) -> None:
    shards = start_cluster(1, secured=True)
    state = place / "shardpulse-0"
    shutil.copytree(shards.directory, state, ignore=shutil.ignore_patterns("shard-*"))
    for path in (state, *state.iterdir()):
        os.chown(path, UID, UID)
    with pytest.raises(ConfigError, match=f"belongs to another user .uid {UID}"):
        LocalShards(str(state)).look()
    os.chown(state, 0, 0)  # the directory is ours: each file is asked
    os.chown(state / STATE_FILE, 0, 0)
    with pytest.raises(ConfigError, match=f"{PASSWORDS_FILE} belongs to another user"):
        LocalShards(str(state)).look()


def test_a_node_of_a_neighbour_takes_over_no_slots(start_cluster: StartCluster, place: Path) -> None:
    shards = start_cluster(2, secured=True)
    if not shards.bus_secured:
        pytest.skip("this redis-server has no TLS")
    own = certificate(place)
    for name, secured in (("plain", False), ("tls", True)):
        home = place / name
        home.mkdir()
        os.chown(home, UID, UID)
        port = machine.free_ports(1)[0]
        lines: dict[str, object] = {"port": port, "bind": "127.0.0.1", "dir": home, "cluster-enabled": "yes"}
        lines |= {"cluster-port": port + machine.BUS_OFFSET, "cluster-node-timeout": 1500}
        if secured:
            lines |= {
                "tls-port": machine.free_tls_port(),
                "tls-cluster": "yes",
                "tls-cert-file": own,
                "tls-key-file": own,
            }
            lines |= {"tls-ca-cert-file": own}
        arguments = [word for key, value in lines.items() for word in (f"--{key}", str(value))]
        identity = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        with (home / "log").open("wb") as log, started([*identity, shards.redis.path, *arguments], stdout=log):
            stranger = eventually(lambda p=port: connected(p), says=(home / "log").read_text)  # type: ignore[misc]
            with contextlib.closing(stranger):
                stranger.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                stranger.call("CLUSTER", "SET-CONFIG-EPOCH", 1000)
                for address in shards.addresses:
                    stranger.call("CLUSTER", "MEET", *address)
                eventually(lambda: b"handshake" not in stranger.call("CLUSTER", "NODES"), PATIENCE)  # noqa: B023
                assert len(stranger.call("CLUSTER", "NODES").splitlines()) == 1
        for address in shards.addresses:
            with contextlib.closing(Connection(address, shards.credentials)) as connection:
                nodes = connection.call("CLUSTER", "NODES").decode()
                assert len(nodes.splitlines()) == 2, nodes
                assert str(port) not in nodes
    with contextlib.closing(shards.connect()) as cluster:
        assert cluster.masters() == shards.addresses


def connected(port: int) -> Connection | None:
    with contextlib.suppress(ShardpulseError):
        return Connection(("127.0.0.1", port))  # type: ignore[arg-type]
    return None
