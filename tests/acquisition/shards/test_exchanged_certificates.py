"""Certificates that have expired, and those of another authority, are exchanged while everything runs: nothing is lost,
and nobody else is believed."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from acquisition.certificates import files, making
from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_DATA, EXIT_NO_INPUT, EXIT_UNAVAILABLE, ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Connection
from acquisition.link.trust import expired
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.commands.certificates_command import reread
from acquisition.shards.servers import grants
from acquisition.shards.topology import join
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot.reconcile import books
from experiments.processes.access import CERTIFICATE, MASTER_KEY
from tests.support import parts
from tests.support.exchanged import certify, home, is_in_sync, replace, tell
from tests.support.processes import started
from tests.support.tls_cluster import LACK, NAME, Secured, command_in, tls_cluster
from tests.support.waiting import PATIENCE, eventually

if LACK:
    pytest.skip(LACK, allow_module_level=True)

REPLICA = 3
LONG_AGO = -25 * 86400.0  #: seconds: what is valid for 20 days from then on is over


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with tls_cluster(tmp_path / "cluster") as made:
        yield made


class Flow(NamedTuple):
    """A probe and a filter of these shards, and a reader of their books."""

    secured: Secured
    parts: parts.Parts
    reader: Cluster

    @classmethod
    @contextlib.contextmanager
    def begun(cls, secured: Secured, directory: Path) -> Iterator[Flow]:
        """Running, until the end of the block."""
        more = f'[probe]\ninterval_seconds = 0.25\nring_path = "{directory}/ring"\nposition_interval_seconds = 0.5\n'
        commands = [([user], directory / f"{user}.toml") for user in (grants.PROBE, grants.FILTER)]
        for (user,), config in commands:
            config.write_text(secured.configure(user, more))
        known = secured.credentials(grants.READER)
        with (
            parts.running(commands, directory) as running,
            contextlib.closing(Cluster(secured.addresses, known, PATIENCE)) as reader,
        ):
            yield cls(secured, running, reader)

    def said(self) -> str:
        """What the parts have said."""
        return self.parts.said()

    def books(self) -> books.Books:
        """The books of all hosts."""
        return books.read(self.reader, read_layout(self.reader))

    def goes_on(self) -> None:
        """Wait until some more frames are applied."""
        more = books.totals(self.books().accounts).frames + 4
        self.parts.until(lambda: books.totals(self.books().accounts).frames > more)

    def lost(self) -> int:
        """Samples, once the books balance."""
        eventually(lambda: self.books().balanced, says=lambda: self.books().faults)
        return books.totals(self.books().accounts).lost

    @contextlib.contextmanager
    def replica(self) -> Iterator[subprocess.Popen[bytes]]:
        """The replica, started again."""
        place = home(self.secured, REPLICA)
        with (place / "log").open("ab") as log, started(command_in(place), stdout=log, cwd=place) as child:
            yield child


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
    with contextlib.ExitStack() as stack:
        flow = stack.enter_context(Flow.begun(secured, tmp_path))
        flow.goes_on()
        old = expire(secured)
        with pytest.raises(ShardError, match="has a certificate that has expired: issue a new one"):
            Connection(secured.addresses[0], secured.credentials(grants.READER), PATIENCE)
        flow.goes_on()  # who is connected stays so
        operator = named(secured, old)
        secured.children[REPLICA].kill()  # its bus and its master's do not believe each other any more
        secured.children[REPLICA].wait()
        with flow.replica() as replica:
            eventually(lambda: is_missed(secured, operator), 60)
            eventually(lambda: answers(secured, operator))
            assert is_missed(secured, operator)
            replica.kill()
            replica.wait()
        for number in range(REPLICA + 1):
            certify(secured, number, secured.access.authority, NAME)
        told = tell(secured)
        assert told.returncode == EXIT_UNAVAILABLE
        assert "`shardpulse shards certificates --expired` makes a running shard reload it" in told.stderr
        told = tell(secured, "--expired", *map(str, old))
        assert told.returncode == EXIT_UNAVAILABLE, told.stderr  # the replica is away: the others were told
        assert told.stdout.startswith("3 shards reloaded their certificates, 3 of them changed\nnot reloaded: ")
        assert f"shard {secured.addresses[REPLICA]} is unreachable" in told.stdout
        stack.enter_context(flow.replica())
        with join.administer(secured.addresses[REPLICA], PATIENCE, secured.credentials(grants.OPERATOR)) as client:
            eventually(lambda: is_in_sync(client), 60)
        flow.goes_on()
        assert "4 shards reloaded their certificates, 0 of" in tell(secured).stdout
        assert flow.lost() == 0


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

        refused(show(stranger, NAME), "has a certificate from an authority that is not in")
        refused(show(own, other), f"has a certificate for names other than {NAME}")
        unused = show(own, NAME)  # of the right authority and name, and not what is shown now
        old = show(own, NAME)
        refused(unused, "has an expired certificate that was not given with --expired")
        refused(old, "has expired: issue a new one")  # they have read their files, where the same lies
        assert "Replace the files, then repeat the command" in tell(secured, "--expired", *map(str, old)).stderr


def test_files_that_are_no_certificates_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(file: Path) -> tuple[int, str]:
        code = shardpulse(["shards", "certificates", "--addresses", "127.0.0.1:1", "--expired", str(file)])
        return code, capsys.readouterr().err

    missing = tmp_path / "none.pem"
    assert told(missing) == (EXIT_NO_INPUT, f"shardpulse: error: cannot read {missing}: No such file or directory\n")
    for number, text in enumerate(["", "-----BEGIN CERTIFICATE-----\nAAAA", "ä"]):
        file = tmp_path / f"{number}.pem"
        file.write_text(text)
        assert told(file) == (EXIT_DATA, f"shardpulse: error: {file} contains no certificate\n")


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
    with contextlib.ExitStack() as stack:
        flow = stack.enter_context(Flow.begun(secured, tmp_path))
        known = secured.credentials(grants.READER)
        flow.goes_on()
        believe(secured, old + new)
        flow.goes_on()
        for number, _ in enumerate(secured.addresses):
            certify(secured, number, authority, NAME)
        told = tell(secured)
        count = len(secured.addresses)
        said_of_them = f"{count} shards reloaded their certificates, {count} of them changed\n"
        assert told.stdout == said_of_them, told.stderr
        assert "certificates, 0 of" in tell(secured).stdout
        flow.goes_on()
        believe(secured, new)
        flow.goes_on()
        for address in secured.addresses:
            Connection(address, known, PATIENCE).close()
            with pytest.raises(ShardError, match="has a certificate from an authority that is not in"):
                Connection(address, known._replace(authority=str(only_old)), PATIENCE)
        secured.children[REPLICA].kill()  # its bus and its master are to believe it, and it them
        secured.children[REPLICA].wait()
        stack.enter_context(flow.replica())
        operator = secured.credentials(grants.OPERATOR)
        with join.administer(secured.addresses[REPLICA], PATIENCE, operator) as client:
            eventually(lambda: is_in_sync(client), 60)
        flow.goes_on()
        assert flow.lost() == 0
        assert "is unreachable" not in flow.said()


def test_files_that_do_not_fit_are_refused_and_nothing_changes(secured: Secured) -> None:
    key = home(secured, 0) / f"{CERTIFICATE}.key"
    own = key.read_bytes()
    other = making.authority(making.SHARDS, datetime.now(UTC).replace(microsecond=0), 30)
    replace(key, files.write(other, home(secured, 0) / "other", files.AUTHORITY)[1].read_bytes())
    told = tell(secured)
    assert told.returncode == EXIT_UNAVAILABLE
    assert f"shard {secured.addresses[0]} keeps its certificate: " in told.stderr
    assert len(told.stderr.splitlines()) == 1
    Connection(secured.addresses[0], secured.credentials(grants.READER), PATIENCE).close()
    replace(key, own)
    assert tell(secured).returncode == 0
    call_itself(secured, 1, "")
    both = ",".join(map(str, secured.addresses[:2]))
    eventually(lambda: "for names other than 127.0.0.1" in tell(secured).stderr)
    assert tell(secured, "--addresses", both).returncode == 0  # who is found by its name need not be known by it
    call_itself(secured, 1, NAME)
    eventually(lambda: tell(secured).returncode == 0)
    secured.children[REPLICA].kill()
    secured.children[REPLICA].wait()
    eventually(lambda: tell(secured).returncode == EXIT_UNAVAILABLE)
    assert "no shard was changed: " in tell(secured).stderr


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
