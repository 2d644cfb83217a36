"""Another authority, and certificates of it, while everything runs: no connection ends, nothing is lost."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from acquisition.certificates import files, making
from acquisition.errors import EXIT_UNAVAILABLE, ShardError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.link.resp import Connection
from acquisition.shards import grants, join, redis_binary, rendering
from acquisition.snapshot import books
from experiments.processes.access import CERTIFICATE, MASTER_KEY
from tests.support.exchanged import certify, home, is_in_sync, replace, tell
from tests.support.processes import started
from tests.support.tls_cluster import NAME, Secured, command_in, tls_cluster
from tests.support.waiting import PATIENCE, eventually

if redis_binary.find().release < rendering.RELEASE:
    pytest.skip("shards with TLS take Redis 7", allow_module_level=True)

REPLICA = 3


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with tls_cluster(tmp_path / "cluster") as made:
        yield made


def believe(secured: Secured, data: bytes) -> None:
    """All shards and clients believe these certificates from now on."""
    replace(secured.ca, data)
    for number, _ in enumerate(secured.addresses):
        replace(home(secured, number) / "ca.pem", data)
    assert tell(secured).returncode == 0


def call_itself(secured: Secured, number: int, name: str) -> None:
    """A shard says another name of itself, or none."""
    with contextlib.closing(Connection(secured.addresses[number], secured.credentials(MASTER_KEY), PATIENCE)) as shard:
        assert shard.call("CONFIG", "SET", "cluster-announce-hostname", name) == b"OK"


def test_another_authority_takes_over_and_nothing_is_lost(secured: Secured, tmp_path: Path) -> None:
    old = secured.ca.read_bytes()
    authority = making.authority(making.SHARDS, datetime.now(UTC).replace(microsecond=0), 30)
    new = files.write(authority, tmp_path / "next", files.AUTHORITY)[0].read_bytes()
    only_old = tmp_path / "old.pem"
    only_old.write_bytes(old)
    more = f'[probe]\ninterval_seconds = 0.25\nring_path = "{tmp_path}/ring"\nposition_interval_seconds = 0.5\n'
    said = tmp_path / "said"
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(said.open("wb"))
        for user in (grants.PROBE, grants.FILTER):
            config = tmp_path / f"{user}.toml"
            config.write_text(secured.configure(user, more))
            command = [sys.executable, "-m", "acquisition", user, "--config", str(config)]
            stack.enter_context(started(command, stdout=log, stderr=log))
        known = secured.credentials(grants.READER)
        reader = stack.enter_context(contextlib.closing(Cluster(secured.addresses, known, PATIENCE)))
        layout = read_layout(reader)

        def applied() -> int:
            return books.totals(books.read(reader, layout).accounts).frames

        def goes_on() -> None:
            count = applied()
            eventually(lambda: applied() > count + 4, 60, says=said.read_text)

        eventually(lambda: applied() > 2, 60, says=said.read_text)
        believe(secured, old + new)
        goes_on()
        for number, _ in enumerate(secured.addresses):
            certify(secured, number, authority, NAME)
        told = tell(secured)
        count = len(secured.addresses)
        said_of_them = f"{count} shards have read their certificates again, {count} have another one now\n"
        assert told.stdout == said_of_them, told.stderr
        assert "again, 0 have" in tell(secured).stdout
        goes_on()
        believe(secured, new)
        goes_on()
        for address in secured.addresses:
            Connection(address, known, PATIENCE).close()
            with pytest.raises(ShardError, match="has a certificate that no authority in"):
                Connection(address, known._replace(authority=str(only_old)), PATIENCE)
        secured.children[REPLICA].kill()  # its bus and its master are to believe it, and it them
        secured.children[REPLICA].wait()
        stack.enter_context(started(command_in(home(secured, REPLICA)), stdout=log, cwd=home(secured, REPLICA)))
        operator = secured.credentials(grants.OPERATOR)
        with join.administer(secured.addresses[REPLICA], PATIENCE, operator) as client:
            eventually(lambda: is_in_sync(client), 60)
        goes_on()
        eventually(lambda: books.read(reader, layout).balanced, says=lambda: books.read(reader, layout).faults)
        found = books.totals(books.read(reader, layout).accounts)
    assert found.lost == 0
    assert "cannot be reached" not in said.read_text()


def test_files_that_do_not_fit_are_refused_and_nothing_changes(secured: Secured) -> None:
    key = home(secured, 0) / f"{CERTIFICATE}.key"
    own = key.read_bytes()
    other = making.authority(making.SHARDS, datetime.now(UTC).replace(microsecond=0), 30)
    replace(key, files.write(other, home(secured, 0) / "other", files.AUTHORITY)[1].read_bytes())
    told = tell(secured)
    assert told.returncode == EXIT_UNAVAILABLE
    assert f"shard {secured.addresses[0]} keeps the certificate that it has: " in told.stderr
    assert len(told.stderr.splitlines()) == 1
    Connection(secured.addresses[0], secured.credentials(grants.READER), PATIENCE).close()
    replace(key, own)
    assert tell(secured).returncode == 0
    call_itself(secured, 1, "")
    both = ",".join(map(str, secured.addresses[:2]))
    eventually(lambda: "for other names than 127.0.0.1" in tell(secured).stderr)
    assert tell(secured, "--addresses", both).returncode == 0  # who is found by its name need not be known by it
    call_itself(secured, 1, NAME)
    eventually(lambda: tell(secured).returncode == 0)
    secured.children[REPLICA].kill()
    secured.children[REPLICA].wait()
    eventually(lambda: tell(secured).returncode == EXIT_UNAVAILABLE)
    assert "no shard was told: " in tell(secured).stderr
