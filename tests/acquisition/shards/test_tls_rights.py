"""Over TLS, one shard whose list of users is an old one: what it refuses is told, of reader and observer, with shard,
command and what to do; the others are read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_PERMISSION, EXIT_UNAVAILABLE
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address, Connection
from acquisition.model.identity import host_id
from acquisition.shards.servers import grants
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.values.states import CURRENT, UNKNOWN
from acquisition.wire import keys
from acquisition.wire.position import Position
from experiments.processes.access import MASTER_KEY
from tests.support.scene import Scene
from tests.support.tls_cluster import LACK, Secured, tls_cluster
from tests.support.waiting import eventually

if LACK:
    pytest.skip(LACK, allow_module_level=True)

TICK = 999_999
NOW = TICK + 1.75
HOSTS = [f"host{number}" for number in range(12)]  #: on all shards
SET = "host"
#: What is taken away, and a word of what is told.
TAKEN = {
    "-hgetall": "HGETALL applied:{*}",
    "-get": "GET",
    "resetpass >another": "WRONGPASS",
    "-xrange": "XRANGE raw:{*}",
}


class Scenery(NamedTuple):
    secured: Secured
    owners: dict[str, Address]  #: of hosts


@pytest.fixture(scope="module")
def scenery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenery]:
    """All hosts have sent the tick that is due."""
    with tls_cluster(tmp_path_factory.mktemp("tls")) as secured:
        user = secured.credentials(MASTER_KEY)
        with contextlib.closing(Cluster(secured.addresses[:1], user, 20)) as cluster:
            scene = Scene(cluster)
            for host in HOSTS:
                scene.host(host, [TICK], resource_set=SET)
                scene.position(host, SET, Position(5, 1, TICK, TICK + 0.5, 1.0, applied=4, frames=1, made=4))
            owners = {host: cluster.owner(keys.commit(scene.tag(host_id(host)))) for host in HOSTS}
        assert set(owners.values()) == set(secured.addresses[:3])
        yield Scenery(secured, owners)


@contextmanager
def taken(secured: Secured, user: str, rule: str, addresses: list[Address]) -> Iterator[None]:
    """The user without something on some shards, until the block ends."""
    words = {"resetpass >another": ["resetpass", f"#{grants.hashed(secured.access.passwords[user])}"]}
    given = words.get(rule, [rule.replace("-", "+")])
    try:
        for address in addresses:
            call(secured, address, user, rule.split())
        yield
    finally:
        for address in addresses:
            call(secured, address, user, given)


def call(secured: Secured, address: Address, user: str, rules: list[str]) -> None:
    with contextlib.closing(Connection(address, secured.credentials(MASTER_KEY))) as connection:
        connection.call("ACL", "SETUSER", user, *rules)


@pytest.mark.parametrize("rule", TAKEN)
def test_a_reader_sees_the_hosts_of_the_other_shards(scenery: Scenery, rule: str) -> None:
    secured, owners = scenery
    refusing = secured.addresses[1]
    with taken(secured, grants.READER, rule, [refusing]):
        cluster = Cluster([secured.addresses[0]], secured.credentials(grants.READER), 20)
        with SnapshotReader(cluster, clock=lambda: NOW) as reader:
            snapshot = reader.latest()
    states = {block.host: block.state for block in snapshot.blocks}
    assert {states.get(host) for host, owner in owners.items() if owner != refusing} == {CURRENT}
    if rule == "-xrange":  # asked only about hosts that are late
        return
    assert {states.get(host, UNKNOWN) for host, owner in owners.items() if owner == refusing} <= {UNKNOWN, CURRENT}
    told = [error for error in snapshot.errors if TAKEN[rule] in error]
    assert told, snapshot.errors
    assert all(str(refusing) in error and "[shards] username and password_file" in error for error in told)


@pytest.mark.parametrize("rule", TAKEN)
def test_an_observer_is_told_and_sees_the_rest(
    scenery: Scenery, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secured, owners = scenery
    config = tmp_path / "observer.toml"
    config.write_text(secured.configure(grants.OBSERVER, "timeout_seconds = 20.0\n"))

    def asked() -> tuple[int, str, str]:
        code = shardpulse(["status", "--json", "--config", str(config)])
        said = capsys.readouterr()
        return code, said.out, said.err

    refusing = secured.addresses[1]
    with taken(secured, grants.OBSERVER, rule, [refusing]):

        def all_heard() -> tuple[int, dict[str, Any]] | None:
            """Code and answer once every shard has answered or refused: a busy machine may keep one silent at first."""
            code, out, _ = asked()
            found: dict[str, Any] = json.loads(out)
            return None if any(row["slots"] is None for row in found["shards"]) else (code, found)

        code, found = eventually(all_heard)
        assert (code, found["exit_code"]) == (EXIT_UNAVAILABLE, EXIT_UNAVAILABLE)
        told = [row for row in found["findings"] if TAKEN[rule] in row["text"]]
        assert told, found["findings"]
        assert all(str(refusing) in row["about"] + row["text"] and row["kind"] == "stale" for row in told)
        assert all("[shards] username and password_file" in row["text"] for row in told)
        assert sum(row["slots"] for row in found["shards"]) == keys.SLOTS
        assert [row["address"] for row in found["shards"] if row["refuses"]] == [str(refusing)] * (
            rule == "resetpass >another"
        )
        elsewhere = {f"{host_id(host):016x}" for host, owner in owners.items() if owner != refusing}
        assert elsewhere <= {row["host"] for row in found["hosts"]}
    with taken(secured, grants.OBSERVER, rule, secured.addresses):
        code, out, err = asked()
    assert (code, out) == (EXIT_PERMISSION, "")
    assert "[shards] username and password_file" in err
    assert "shard localhost:" in err
