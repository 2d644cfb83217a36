"""``shardpulse shards passwords``: users get other passwords while everything runs, and nothing is lost."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acquisition.cli import main as shardpulse
from acquisition.errors import PermissionRefused, ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Connection
from acquisition.link.trust.credentials import Credentials
from acquisition.outbox.link.sender import Sender
from acquisition.shards.servers import grants
from acquisition.shards.topology import join
from acquisition.snapshot.reconcile import books
from tests.support import parts
from tests.support.tls_cluster import LACK, Secured, tls_cluster
from tests.support.waiting import eventually

if LACK:
    pytest.skip(LACK, allow_module_level=True)

PARTS = {
    grants.PROBE: ["probe"],
    grants.FILTER: ["filter"],
    grants.SERVE: ["serve"],
    grants.ARCHIVE: ["archive", "run"],
}
ROTATED = (*PARTS, grants.REPLICATION)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with tls_cluster(tmp_path_factory.mktemp("rotated")) as made:
        yield made


def as_now(secured: Secured, user: str) -> Credentials:
    """With the password that lies in the user's file now."""
    return secured.credentials(user)._replace(password=secured.access.password_file(user).read_text().strip())


def shards(secured: Secured, capsys: pytest.CaptureFixture[str], user: str, *arguments: str, code: int = 0) -> Any:
    """What the command says: its document, or why it has failed."""
    config = secured.access.directory / f"as-{user}.toml"
    config.write_text(secured.configure(user, "timeout_seconds = 20.0\n"))
    capsys.readouterr()
    named = ["--addresses", ",".join(map(str, secured.addresses)), "--config", str(config), "--json"]
    assert shardpulse(["shards", *arguments, *named]) == code
    said = capsys.readouterr()
    return json.loads(said.out) if said.out else said.err


def rotate(secured: Secured, capsys: pytest.CaptureFixture[str], step: str, *users: str, code: int = 0) -> Any:
    given = ["--passwords", str(secured.access.directory / "passwords")]
    return shards(secured, capsys, grants.KEEPER, "passwords", step, *users, *given, code=code)


def logs_in(secured: Secured, user: str, password: str) -> list[bool]:
    """Whether each shard takes this password."""
    found = []
    for address in secured.addresses:
        try:
            Connection(address, Credentials(user, password, (), str(secured.ca)), 20.0).close()
            found.append(True)
        except PermissionRefused:
            found.append(False)
    return found


def test_running_parts_take_another_password_and_lose_nothing(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = (
        f'[probe]\ninterval_seconds = 0.25\nring_path = "{tmp_path}/ring"\nposition_interval_seconds = 0.5\n'
        f'[serve]\nbind = "127.0.0.1:0"\n[archive]\nurl = "{tmp_path}/archive.db"\n'
    )
    before = {user: as_now(secured, user).password for user in ROTATED}
    for user in PARTS:
        own = tmp_path / f"{user}.password"
        shutil.copy(secured.access.password_file(user), own)
        (tmp_path / f"{user}.toml").write_text(
            secured.configure(user, more).replace(str(secured.access.password_file(user)), str(own))
        )
    commands = [(words, tmp_path / f"{user}.toml") for user, words in PARTS.items()]
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(parts.running(commands, tmp_path))
        reader = stack.enter_context(contextlib.closing(Cluster(secured.addresses, as_now(secured, grants.READER), 20)))
        layout = read_layout(reader)

        def applied() -> int:
            return books.totals(books.read(reader, layout).accounts).frames

        running.until(lambda: applied() > 2)
        place = running.place()
        running.until(lambda: "following" in running.said())
        assert rotate(secured, capsys, "begin", *ROTATED) == {"step": "begin", "users": [*ROTATED], "shards": 4}
        assert rotate(secured, capsys, "begin", *ROTATED)["shards"] == 4  # again
        for user in PARTS:
            shutil.copy(secured.access.directory / "passwords" / f"{user}.next", tmp_path / "exchanged")
            (tmp_path / "exchanged").rename(tmp_path / f"{user}.password")
        for child in running.children:
            child.send_signal(signal.SIGHUP)
        assert rotate(secured, capsys, "finish", *ROTATED)["sessions"] >= len(PARTS)
        count = applied()
        running.until(lambda: applied() > count + 4)
        running.until(lambda: parts.answers(f"{place}/v1/snapshot"))
        assert [child.poll() for child in running.children] == [None] * len(PARTS), running.said()
        eventually(lambda: books.read(reader, layout).balanced, says=lambda: books.read(reader, layout).faults)
        assert books.totals(books.read(reader, layout).accounts).lost == 0
        with join.administer(secured.addresses[3], 20, as_now(secured, grants.OPERATOR)) as client:
            eventually(lambda: join.in_sync(client))
    assert "refused" not in running.said()
    for user, password in before.items():
        now = as_now(secured, user).password
        assert (password != now, len(now)) == (True, 64)
        assert logs_in(secured, user, password) == [False] * 4


def test_shard_with_other_users_is_named_and_replica_takes_over(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    def other_users(code: int) -> dict[str, list[str]]:
        rows = shards(secured, capsys, grants.OPERATOR, "status", code=code)["shards"]
        return {row["address"]: row["other_users"] for row in rows if row["other_users"]}

    assert other_users(0) == {}
    replica = secured.addresses[3]
    with contextlib.closing(Connection(replica, as_now(secured, grants.KEEPER))) as connection:
        connection.call("ACL", "SETUSER", grants.READER, ">of the replica only")
    assert other_users(78) == {str(replica): [grants.READER]}
    old = as_now(secured, grants.READER).password
    rotate(secured, capsys, "begin", grants.READER)
    rotate(secured, capsys, "finish", grants.READER)
    assert other_users(0) == {}
    with contextlib.closing(Connection(replica, as_now(secured, grants.OPERATOR))) as connection:
        connection.call("CLUSTER", "FAILOVER")
        eventually(lambda: b"myself,master" in connection.call("CLUSTER", "NODES"))
    assert logs_in(secured, grants.READER, old) == [False] * 4
    assert logs_in(secured, grants.READER, as_now(secured, grants.READER).password) == [True] * 4
    assert other_users(0) == {}


def test_a_password_file_that_is_just_being_exchanged_is_waited_for(secured: Secured, tmp_path: Path) -> None:
    own = tmp_path / "password"
    own.touch(0o600)
    user = as_now(secured, grants.PROBE)._replace(password_file=str(own))
    with pytest.raises(ShardError, match=f"shards.password_file: no password in {own}"):
        Connection(secured.addresses[0], user)
    sender = Sender(1, secured.addresses[:1], user, 20.0)
    with contextlib.closing(sender):
        eventually(lambda: sender.advance(time.monotonic()) or "no password in" in sender.problem)
        own.write_text(f"{user.password}\n")
        eventually(lambda: sender.advance(time.monotonic()), 30)


def test_passwords_change_on_all_shards_or_on_none(secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no rotation of probe is in progress" in rotate(secured, capsys, "finish", grants.PROBE, code=2)
    assert "lacks user nobody" in rotate(secured, capsys, "begin", "nobody", grants.PROBE, code=69)
    secured.children[0].kill()
    secured.children[0].wait()
    said = rotate(secured, capsys, "begin", grants.PROBE, code=69)
    assert "passwords must be changed on all shards: " in said
    coming = (secured.access.directory / "passwords" / "probe.next").read_text().strip()
    known = Credentials(grants.PROBE, coming, (), str(secured.ca))
    capsys.readouterr()
    assert shardpulse(["shards", "render", "users", "--passwords", str(secured.access.directory / "passwords")]) == 0
    both = f" #{grants.hashed(as_now(secured, grants.PROBE).password)} #{grants.hashed(coming)} "
    assert both in capsys.readouterr().out  # a shard that starts now knows both
    for address in secured.addresses[1:]:
        with pytest.raises(PermissionRefused, match="WRONGPASS"):
            Connection(address, known, 20.0)
