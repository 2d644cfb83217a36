"""``shardpulse status`` of a user who lacks a right: on one shard it is a finding that names shard, command, key and
what to do, and the rest is shown; on all of them it is the answer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_PERMISSION, EXIT_UNAVAILABLE, PermissionRefused
from acquisition.link.cluster import Cluster
from acquisition.link.trust.credentials import Credentials
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.outbox.frames.window import SendWindow
from acquisition.shards.servers.launch import Shards
from acquisition.shards.topology.nodes import Members
from acquisition.status import health
from acquisition.status.finding import STALE, Finding
from acquisition.status.health import Health
from acquisition.wire import keys, status
from acquisition.wire.position import Position
from tests.support.limited_user import PASSWORD, USER, limited, rule, rules
from tests.support.scene import Scene

TICK = 999_999
NOW = TICK + 1.75
HOSTS = [f"host{number}" for number in range(8)]  #: on both shards
OTHER = "another password"
SET = "host"
KINDS = (
    "layout",
    "commit",
    "applied",
    "dormant",
    "status",
    "raw",
    "lease",
    "workers",
    "readers",
    "archiver",
    "archived",
    "events",
)
COMMANDS = (
    "get", "hget", "hgetall", "pttl", "scan", "zrange", "xrange", "time", "info", "multi", "exec", "cluster|slots",
    "cluster|nodes",
)  # fmt: skip
#: Without these nothing is missing: another shard, or other commands, tell the same.
_DISPENSABLE = {"layout", "multi", "exec", "cluster|slots"}
_UNASKED = {"dormant", "hget"}  #: no set was forgotten


def allowed(without: str = "", password: str = PASSWORD) -> list[str]:
    """The rules of the user, but for one command, or one kind of key."""
    return rules(KINDS, COMMANDS, ("ping", "asking"), without, password)


@pytest.fixture
def scene(shards: Shards, cluster: Cluster) -> Iterator[Scene]:
    """All hosts have an applied position, and their probes' accounts of it."""
    scene = Scene(cluster)
    for host in HOSTS:
        position = Position(5, 1, TICK, TICK + 0.5, 1.0, applied=4, frames=1, made=4)
        scene.host(host, [TICK], resource_set=SET)
        scene.position(host, SET, position)
        window = SendWindow(resource_set_id(SET), 5)
        window.send(window.number(4))
        window.acknowledge(1, 4, b"1-1")
        window.synchronize(position)
        number = host_id(host)
        key = keys.status(scene.tag(number), number)
        told = status.encode(host, TICK + 0.5, {resource_set_id(SET): window.status()}, {})
        cluster.call(key, "SET", key, told, "EX", status.EXPIRE_SECONDS)
    with limited(shards, allowed()):
        yield scene


def look(shards: Shards) -> Health:
    user = Credentials(USER, PASSWORD)
    with (
        contextlib.closing(Cluster(shards.addresses, user)) as cluster,
        Members(shards.addresses, user) as members,
    ):
        return health.read(cluster, members, {resource_set_id(SET): SET}, wall=lambda: NOW)


def told_of(found: Health) -> list[Finding]:
    """What is found beside what is always there in this scene: its clock is not that of the shards, and its filter is
    half a minute behind, more from second to second."""
    return [one for one in found.findings if "clock" not in one.text and not one.about.startswith(("host ", "worker "))]


@pytest.mark.parametrize("right", [*KINDS, *COMMANDS])
def test_refusal_of_one_shard_is_a_finding_of_all_an_error(scene: Scene, shards: Shards, right: str) -> None:
    before = look(shards)
    assert before.books is not None
    assert {row.host_name for row in before.books.accounts if row.balanced and row.known} == set(HOSTS)
    refusing = shards.addresses[1]
    rule(refusing, *allowed(right))
    found = look(shards)
    new = [one for one in told_of(found) if one not in told_of(before)]
    if right in _DISPENSABLE | _UNASKED:
        assert new == []
        return
    named = [one for one in new if str(refusing) in one.about + one.text]
    assert named, found.findings
    assert {one.kind for one in new} == {STALE}
    assert any(right.upper().replace("|", " ") in one.text or f"{right}:" in one.text for one in named), named
    assert all("grant the user this right on this shard" in one.text for one in named)
    assert sum(row.slots for row in found.shards) == keys.SLOTS
    assert found.books is not None
    elsewhere = {host for host in HOSTS if scene.cluster.owner(keys.commit(scene.tag(host_id(host)))) != refusing}
    assert elsewhere <= {row.host_name for row in found.books.accounts if row.balanced and row.known}
    for address in shards.addresses:
        rule(address, *allowed(right))
    with pytest.raises(PermissionRefused, match="grant the user this right"):
        look(shards)
    for address in shards.addresses:
        rule(address, *allowed())
    assert told_of(look(shards)) == told_of(before)


def test_who_lacks_the_layout_everywhere_reads_nothing(scene: Scene, shards: Shards) -> None:
    for right in ("layout", "cluster|slots"):
        for address in shards.addresses:
            rule(address, *allowed(right))
        with pytest.raises(PermissionRefused, match="grant the user this right"):
            look(shards)


def test_refusal_exits_69_for_one_shard_and_77_for_all(
    scene: Scene, shards: Shards, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "password").touch(0o600)
    (tmp_path / "password").write_text(PASSWORD)
    listed = ", ".join(f'"{address}"' for address in shards.addresses)
    config = tmp_path / "observer.toml"
    config.write_text(
        f'[shards]\naddresses = [{listed}]\nusername = "{USER}"\npassword_file = "{tmp_path / "password"}"\n'
    )

    def asked(*options: str) -> tuple[int, str, str]:
        code = shardpulse(["status", "--config", str(config), *options])
        said = capsys.readouterr()
        return code, said.out, said.err

    rule(shards.addresses[0], *allowed(password=OTHER))
    code, out, err = asked("--json")
    found: dict[str, Any] = json.loads(out)
    assert (code, err, found["exit_code"], found["verdict"]) == (EXIT_UNAVAILABLE, "", EXIT_UNAVAILABLE, "stale")
    (refusing,) = [row for row in found["shards"] if row["refuses"]]
    assert (refusing["address"], refusing["answering"]) == (str(shards.addresses[0]), False)
    assert sum(row["slots"] for row in found["shards"]) == keys.SLOTS
    told = [row for row in found["findings"] if "WRONGPASS" in row["text"]]
    assert {row["about"].split()[-1] for row in told} == {str(shards.addresses[0]), "partitions"}
    assert len(told) == 2
    assert all("set [shards] username and password_file" in row["text"] for row in told)
    code, out, err = asked()
    assert code == EXIT_UNAVAILABLE
    assert "REFUSES" in out
    assert "INCOMPLETE" in out
    assert f"1 of 2 masters with {keys.SLOTS:,} slots" in out
    rule(shards.addresses[1], *allowed(password=OTHER))
    code, out, err = asked("--json")
    assert (code, out) == (EXIT_PERMISSION, "")
    assert "WRONGPASS" in err
