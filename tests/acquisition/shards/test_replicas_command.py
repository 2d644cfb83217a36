"""``shards replicas``: machines with TLS come, die and come back empty; each master has its replicas elsewhere.

Each address of loopback stands for a machine with two servers.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from acquisition.cli import main as shardpulse
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address
from acquisition.shards.servers import grants, machine, rendering
from acquisition.wire import keys
from experiments.processes import access
from experiments.processes.access import Access
from tests.support.processes import started
from tests.support.tls_cluster import answers, command_in
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("redis-server")

MACHINES = 4
FORMED = 3  #: of them form the cluster


class Machines(NamedTuple):
    """``masters`` and ``replicas`` in turn, by machine; ``children`` by address."""

    masters: list[Address]
    replicas: list[Address]
    access: Access
    directory: Path
    children: dict[Address, subprocess.Popen[bytes]]
    stack: contextlib.ExitStack

    def start(self, address: Address) -> None:
        """A server at its place, with the files that it has."""
        home = self.directory / str(address)
        log = self.stack.enter_context((home / "log").open("ab"))
        self.children[address] = self.stack.enter_context(started(command_in(home), stdout=log, cwd=home))
        eventually(lambda: answers(address, self.access.credentials(grants.OPERATOR)))

    def kill(self, address: Address, emptied: bool = False) -> None:
        """Its process ends at once; ``emptied``: and it does not know any more who it was."""
        self.children[address].kill()
        self.children[address].wait()
        if emptied:
            (self.directory / str(address) / "nodes.conf").unlink()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Four, of which three form a cluster of three masters with a replica each on the next machine."""
    if access.missing():
        pytest.skip(access.missing())
    ports = machine.free_ports(2)
    masters, replicas = ([Address(f"127.0.0.{1 + one}", port) for one in range(MACHINES)] for port in ports)
    with contextlib.ExitStack() as stack:
        made = Machines(masters, replicas, access.make(tmp_path), tmp_path, {}, stack)
        for address in (*masters, *replicas):
            home = str(tmp_path / str(address))
            made.access.place(
                rendering.Server(
                    address.host, (address.host,), address.port, machine.cores()[0], 64 << 20, 500, home, home, "root"
                )
            )
            made.start(address)
        (tmp_path / "operator.toml").write_text(
            made.access.section(grants.OPERATOR, masters[:FORMED], "timeout_seconds = 20.0\n")
        )
        yield made


class Run:
    """Commands as ``operator``, by the addresses of ``seeds``."""

    def __init__(self, machines: Machines, capsys: pytest.CaptureFixture[str]) -> None:
        self._machines, self._capsys = machines, capsys
        self.seeds = machines.masters[:1]

    def __call__(self, *arguments: Any, code: int = 0) -> Any:
        returned, out, err = self._run(*arguments)
        assert returned == code, err
        return err if code else json.loads(out)

    def _run(self, *arguments: Any) -> tuple[int, str, str]:
        self._capsys.readouterr()
        told = ["--addresses", ",".join(map(str, self.seeds)), "--json"]
        words = ["shards", *map(str, arguments), *told, "--config", str(self._machines.directory / "operator.toml")]
        return shardpulse(words), *self._capsys.readouterr()

    def form(self) -> None:
        """Three masters, and a replica of each on the next machine."""
        masters, replicas = self._machines.masters[:FORMED], self._machines.replicas[:FORMED]
        usual, self.seeds = self.seeds, [*masters, *replicas[1:], replicas[0]]
        self("form", "--replicas", 1)
        self.seeds = usual

    def followed(self) -> Mapping[str, str]:
        """Replica -> its master, of all that answer."""
        rows = self("status")["shards"]
        assert all(row["in_sync"] for row in rows if row["replica_of"])
        return {row["address"]: row["replica_of"] for row in rows if row["replica_of"]}

    def masters(self) -> list[str]:
        """Who owns slots."""
        return sorted(row["address"] for row in self("status")["shards"] if row["slots"])

    def serving(self) -> list[str]:
        """Who owns slots while somebody does not answer, which the exit code says; nobody until all are owned."""
        rows = [row for row in json.loads(self._run("status")[1])["shards"] if row["answering"]]
        owned = sum(row["slots"] for row in rows)
        return [row["address"] for row in rows if row["slots"]] if owned == keys.SLOTS else []


def has_replicas(found: Mapping[str, str], masters: list[str]) -> bool:
    """Whether each master has one replica, on another machine."""
    apart = all(replica.split(":")[0] != master.split(":")[0] for replica, master in found.items())
    return sorted(found.values()) == masters and apart


def test_masters_keep_replicas_as_machine_comes_and_goes(
    machines: Machines, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(machines, capsys)
    run.form()
    assert run("replicas", "--each", 1)["placed"] == []
    run("add", machines.masters[3])
    said = run("replicas", "--each", 1, code=2)
    assert f"without 1 replicas: {machines.masters[3]}" in said
    placed = run("replicas", machines.replicas[3], "--each", 1)
    assert len(placed["placed"]) == 2  # its own server for another master, whose replica is for it
    masters = run.masters()
    assert (placed["masters"], len(masters)) == (4, 4)
    assert has_replicas(run.followed(), masters)
    assert run("replicas", machines.replicas[3], "--each", 1)["placed"] == []
    assert f"shard {masters[0]} is a master with partitions" in run("replicas", masters[0], "--each", 1, code=2)

    # it goes again: its master first, whose replica then stands in for the one that lies there
    gone = [machines.masters[3], machines.replicas[3]]
    freed = next(replica for replica, master in run.followed().items() if master == str(gone[0]))
    run("remove", gone[0])
    run("replicas", freed, "--each", 1, "--leaving", ",".join(map(str, gone)))
    run("remove", gone[1])
    assert has_replicas(run.followed(), run.masters())
    assert str(gone[1]) not in json.dumps(run("status"))
    together = f"{machines.masters[0].host},{machines.masters[1].host},{machines.masters[2].host}"
    assert "no free server on another machine" in run("replicas", "--each", 1, "--together", together, code=2)


def test_dead_machine_is_replaced_at_same_or_other_addresses(
    machines: Machines, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(machines, capsys)
    run.form()
    values = {f"commit:{{{tag}}}:test": tag.encode() for tag in keys.tags(keys.DEFAULT_PARTITIONS)}
    user = machines.access.credentials(grants.OPERATOR)
    with contextlib.closing(Cluster(machines.masters[1:3], user, 20)) as cluster:
        for name, value in values.items():
            cluster.call(name, "SET", name, value)
    dead = [machines.masters[0], machines.replicas[0]]
    run.seeds = machines.masters[1:3]
    for address in dead:
        machines.kill(address, emptied=True)
    assert "wait until a replica has taken over" in run("replicas", "--each", 1, code=69)
    eventually(lambda: str(machines.replicas[1]) in run.serving(), 120)

    for address in dead:  # at the same addresses, knowing nobody
        machines.start(address)
    placed = run("replicas", *dead, "--each", 1)["placed"]
    assert placed[0] == [str(dead[0]), str(machines.replicas[1])]  # the machine with two masters first
    assert has_replicas(run.followed(), run.masters())
    run("handover", machines.replicas[1], "--to", dead[0])
    assert run.masters() == sorted(map(str, machines.masters[:3]))
    eventually(lambda: has_replicas(run.followed(), run.masters()), 60)  # who handed over has all again

    for address in dead:  # and for good: others take their place
        machines.kill(address)
    eventually(lambda: str(machines.replicas[1]) in run.serving(), 120)
    for address in dead:
        run("remove", address)
    run("replicas", machines.masters[3], machines.replicas[3], "--each", 1)
    found = run.followed()
    assert has_replicas(found, run.masters())
    assert not {str(address) for address in dead} & set(found)
    with contextlib.closing(Cluster(machines.masters[1:3], user, 20)) as cluster:
        assert {name: cluster.call(name, "GET", name) for name in values} == values
