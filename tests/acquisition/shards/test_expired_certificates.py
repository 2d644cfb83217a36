"""Certificates that have expired are exchanged while their shards run: nothing is lost, and nobody else is believed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from acquisition.certificates import making
from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_DATA, EXIT_NO_INPUT, EXIT_UNAVAILABLE, ShardError
from acquisition.link import expired
from acquisition.link.cluster import Cluster, read_layout
from acquisition.link.credentials import Credentials
from acquisition.link.resp import Connection
from acquisition.shards import grants, join, redis_binary, rendering
from acquisition.shards.certificates_command import reread
from acquisition.shards.nodes import Members
from acquisition.snapshot import books
from tests.support.exchanged import certify, home, is_in_sync, tell
from tests.support.processes import started
from tests.support.tls_cluster import NAME, Secured, command_in, tls_cluster
from tests.support.waiting import PATIENCE, eventually

if redis_binary.find().release < rendering.RELEASE:
    pytest.skip("shards with TLS take Redis 7", allow_module_level=True)

REPLICA = 3
LONG_AGO = -25 * 86400.0  #: seconds: what is valid for 20 days from then on is over


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with tls_cluster(tmp_path / "cluster") as made:
        yield made


def expire(secured: Secured) -> list[Path]:
    """All shards show certificates that are over; those."""
    old = [certify(secured, number, secured.access.authority, NAME, LONG_AGO) for number in range(REPLICA + 1)]
    told = tell(secured)
    assert told.returncode == 0, told.stderr
    return old


def named(secured: Secured, old: list[Path]) -> Credentials:
    """The operator who believes what has expired."""
    certificates = tuple(one for path in old for one in expired.read(path.read_text()))
    return secured.credentials(grants.OPERATOR)._replace(expired=certificates)


def test_expired_certificates_are_exchanged_and_nothing_is_lost(secured: Secured, tmp_path: Path) -> None:
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

        def goes_on() -> None:
            count = books.totals(books.read(reader, layout).accounts).frames
            more = count + 4
            eventually(lambda: books.totals(books.read(reader, layout).accounts).frames > more, 60, says=said.read_text)

        goes_on()
        old = expire(secured)
        with pytest.raises(ShardError, match="has a certificate that has expired: issue another one"):
            Connection(secured.addresses[0], known, PATIENCE)
        goes_on()  # who is connected stays so
        operator = named(secured, old)
        secured.children[REPLICA].kill()  # its bus and its master's do not believe each other any more
        secured.children[REPLICA].wait()
        with started(command_in(home(secured, REPLICA)), stdout=log, cwd=home(secured, REPLICA)) as replica:
            eventually(lambda: is_missed(secured, operator), 60)
            eventually(lambda: answers(secured, operator))
            assert is_missed(secured, operator)
            replica.kill()
            replica.wait()
        for number in range(REPLICA + 1):
            certify(secured, number, secured.access.authority, NAME)
        told = tell(secured)
        assert told.returncode == EXIT_UNAVAILABLE
        assert "`shardpulse shards certificates --expired` lets a running shard read it" in told.stderr
        told = tell(secured, "--expired", *map(str, old))
        assert told.returncode == EXIT_UNAVAILABLE, told.stderr  # the replica is away: the others were told
        assert told.stdout.startswith("3 shards have read their certificates again, 3 have another one now\nnot told: ")
        assert f"shard {secured.addresses[REPLICA]} cannot be reached" in told.stdout
        stack.enter_context(started(command_in(home(secured, REPLICA)), stdout=log, cwd=home(secured, REPLICA)))
        with join.administer(secured.addresses[REPLICA], PATIENCE, secured.credentials(grants.OPERATOR)) as client:
            eventually(lambda: is_in_sync(client), 60)
        goes_on()
        assert "4 shards have read their certificates again, 0 have" in tell(secured).stdout
        eventually(lambda: books.read(reader, layout).balanced, says=lambda: books.read(reader, layout).faults)
        assert books.totals(books.read(reader, layout).accounts).lost == 0


def test_nothing_but_what_is_named_is_believed(secured: Secured) -> None:
    stranger = making.authority(making.SHARDS, datetime.now(UTC).replace(microsecond=0) - timedelta(days=40), 80)
    own, other = secured.access.authority, "other.example.org"
    with Members(secured.addresses[:1], secured.credentials(grants.OPERATOR), PATIENCE) as connected:
        connected.look()

        def show(issuer: making.Pair, name: str) -> list[Path]:
            shown = [certify(secured, number, issuer, name, LONG_AGO) for number in range(REPLICA + 1)]
            reread(connected, PATIENCE)
            return shown

        def refused(shown: list[Path], words: str) -> None:
            told = tell(secured, "--expired", *map(str, shown))
            assert (told.returncode, told.stdout) == (EXIT_UNAVAILABLE, "")
            assert words in told.stderr

        refused(show(stranger, NAME), "has a certificate that no authority in")
        refused(show(own, other), f"has a certificate for other names than {NAME}")
        unused = show(own, NAME)  # of the right authority and name, and not what is shown now
        old = show(own, NAME)
        refused(unused, "has expired, and is none of those that are named as expired")
        refused(old, "has expired: issue another one")  # they have read their files, where the same lies
        assert "Put others into their files, then tell them again" in tell(secured, "--expired", *map(str, old)).stderr


def test_files_that_are_no_certificates_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(file: Path) -> tuple[int, str]:
        code = shardpulse(["shards", "certificates", "--addresses", "127.0.0.1:1", "--expired", str(file)])
        return code, capsys.readouterr().err

    missing = tmp_path / "none.pem"
    assert told(missing) == (EXIT_NO_INPUT, f"shardpulse: error: {missing} cannot be read: No such file or directory\n")
    for number, text in enumerate(["", "-----BEGIN CERTIFICATE-----\nAAAA", "ä"]):
        file = tmp_path / f"{number}.pem"
        file.write_text(text)
        assert told(file) == (EXIT_DATA, f"shardpulse: error: {file} holds no certificate\n")


def is_missed(secured: Secured, operator: Credentials) -> bool:
    """Whether the masters see nothing of the replica on their bus."""
    with contextlib.closing(Connection(secured.addresses[0], operator, PATIENCE)) as connection:
        rows = [line.split() for line in connection.call("CLUSTER", "NODES").decode().splitlines()]
    return any(f":{secured.addresses[REPLICA].port}@" in row[1] and "fail" in row[2].split(",") for row in rows)


def answers(secured: Secured, operator: Credentials) -> bool:
    """Whether the replica serves clients."""
    with contextlib.suppress(ShardError), contextlib.closing(Connection(secured.addresses[REPLICA], operator)):
        return True
    return False
