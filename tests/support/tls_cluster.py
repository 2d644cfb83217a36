"""Three masters and a replica that speak TLS only, run with rendered files, joined by the user ``operator``."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from acquisition.certificates import files, making
from acquisition.certificates.making import Pair
from acquisition.cli import main as shardpulse
from acquisition.errors import ShardError
from acquisition.link.credentials import Credentials, ours
from acquisition.link.resp import Address, Connection
from acquisition.shards import grants, join, machine, redis_binary, rendering
from acquisition.wire.keys import DEFAULT_PARTITIONS
from tests.support.processes import started
from tests.support.waiting import eventually

AUDITOR = "auditor"  #: a user of the tests, who is told what was refused to others
NAME = "localhost"  #: the only one in the certificates


class Secured(NamedTuple):
    """``addresses``: the masters, then the replica. ``passwords`` holds a file for each user."""

    addresses: list[Address]
    authority: Pair
    directory: Path
    children: list[subprocess.Popen[bytes]]

    @property
    def ca(self) -> Path:
        """The file that clients believe."""
        return self.directory / "authority" / "ca.pem"

    def password_file(self, user: str) -> Path:
        """The password of a user, as its part wants it."""
        return self.directory / "passwords" / user

    def credentials(self, user: str) -> Credentials:
        """As a part has them."""
        return Credentials(user, self.password_file(user).read_text().strip(), ours(), str(self.ca))

    def configure(self, user: str, more: str = "") -> str:
        """The text of a part's configuration."""
        return (
            f'[shards]\naddresses = ["{self.addresses[0]}"]\nusername = "{user}"\n'
            f'password_file = "{self.password_file(user)}"\ntls_ca = "{self.ca}"\n{more}'
        )


@contextmanager
def tls_cluster(directory: Path, masters: int = 3) -> Iterator[Secured]:
    """A running cluster with its layout, and one replica of the first master."""
    now = datetime.now(UTC).replace(microsecond=0)
    authority = making.authority(making.SHARDS, now, 30)
    files.write(authority, directory / "authority", files.AUTHORITY)
    passwords = {user: f"password-of-{user}" for user in grants.USERS}
    auditor = grants.line(AUDITOR, [grants.Grant("ping acl|log")], f"password-of-{AUDITOR}")
    (directory / "passwords").mkdir()
    for user in (*passwords, AUDITOR):
        (directory / "passwords" / user).touch(0o600)
        (directory / "passwords" / user).write_text(f"password-of-{user}\n")
    addresses = [Address(NAME, port) for port in machine.free_ports(masters + 1)]
    with contextlib.ExitStack() as stack:
        made = Secured(addresses, authority, directory, [])
        for number, address in enumerate(addresses):
            home = directory / f"shard-{number}"
            files.write(making.issue(authority, [NAME], now, 20), home, "shard")
            shutil.copy(made.ca, home)
            server = rendering.Server(
                NAME, ("127.0.0.1",), address.port, machine.cores()[0], 64 << 20, 500, str(home), str(home), "root"
            )
            (home / "redis.conf").write_text(rendering.configuration_of(server, passwords[grants.REPLICATION]))
            (home / "users.acl").write_text(f"{rendering.users_of(passwords, DEFAULT_PARTITIONS)}{auditor}\n")
            log = stack.enter_context((home / "log").open("wb"))
            command = [redis_binary.find().path, str(home / "redis.conf")]
            made.children.append(stack.enter_context(started(command, stdout=log, cwd=home)))
        operator = made.credentials(grants.OPERATOR)
        for address in addresses:
            eventually(lambda address=address: _answers(address, operator))  # type: ignore[misc]
        config = directory / "operator.toml"
        config.write_text(made.configure(grants.OPERATOR, "timeout_seconds = 20.0\n"))
        form = ["shards", "form", "--addresses", ",".join(map(str, addresses[:masters])), "--config", str(config)]
        assert shardpulse(form) == 0
        join.replicate(addresses[masters], addresses[0], credentials=operator, seconds=60)
        yield made


def _answers(address: Address, credentials: Credentials) -> bool:
    with contextlib.suppress(ShardError), contextlib.closing(Connection(address, credentials)):
        return True
    return False
