"""Access to TLS 1.3 shards: authorities, users and passwords of each part.

The files of a shard are those printed by ``shardpulse shards render``, its certificate is from an authority made by
``shardpulse certificates``, and every part logs in as its own user.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from acquisition import extras, private_files
from acquisition.errors import ShardpulseError
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials, ours
from acquisition.shards.servers import bus, configuration, grants, process, redis_binary, rendering
from acquisition.shards.servers.redis_binary import RedisBinary
from acquisition.wire.keys import DEFAULT_PARTITIONS

if TYPE_CHECKING:
    from acquisition.certificates.making import Pair

MASTER_KEY = "everything"  #: a user with all rights, for faults and for data closed to all parts
_DAYS, _DAYS_OF_SHARDS = 30, 20
_AUTHORITY, _PASSWORDS = "authority", "passwords"
_NONE: Mapping[str, str] = {}
CERTIFICATE = "shard"  #: the name of a shard's certificate and key in rendered files


def server() -> RedisBinary:
    """This machine's server, with its TLS module. Raises UnavailableError, CannotCreateError."""
    return with_tls(redis_binary.find())


@functools.cache
def with_tls(found: RedisBinary) -> RedisBinary:
    """A server with its TLS module. Raises UnavailableError, CannotCreateError."""
    with TemporaryDirectory() as place:
        return bus.write(Path(place), found)


def missing() -> str:
    """Why servers with TLS are not possible here and what to do about it; "" if they are."""
    if find_spec("cryptography") is None:
        return f"certificates need the package cryptography: {extras.how_to_install('certificates')}"
    try:
        server()
    except ShardpulseError as error:
        return str(error)
    return ""


class Access(NamedTuple):
    """An authority and the passwords of all users, in ``directory``; built by ``make``."""

    directory: Path
    authority: Pair
    passwords: dict[str, str]

    @property
    def ca(self) -> Path:
        """File of the authority trusted by clients."""
        return self.directory / _AUTHORITY / "ca.pem"

    def password_file(self, user: str) -> Path:
        """Password file of a user, as for its part."""
        return self.directory / _PASSWORDS / user

    def credentials(self, user: str) -> Credentials:
        """Credentials as for a part."""
        return Credentials(user, self.passwords[user], ours(), str(self.ca))

    def section(self, user: str, addresses: Sequence[Address], more: str = "") -> str:
        """The table [shards] of a part's configuration, with ``more`` lines in it."""
        listed = ", ".join(f'"{address}"' for address in addresses)
        return (
            f'[shards]\naddresses = [{listed}]\nusername = "{user}"\n'
            f'password_file = "{self.password_file(user)}"\ntls_ca = "{self.ca}"\n{more}'
        )

    def place(self, shard: rendering.Server, extra: Mapping[str, str] = _NONE) -> None:
        """Make the directory of a shard with all of its files; ``extra`` adds to or replaces directives.

        Raises CannotCreateError.
        """
        home, shard = Path(shard.etc), shard._replace(tls_module=server().tls_module)
        text = rendering.configuration_of(shard, self.passwords[grants.REPLICATION])
        process.place(Address(shard.announce, shard.port), home, text + configuration.text(extra))
        self.certify(home, [shard.announce])
        self.list_users(home)
        (home / "ca.pem").write_bytes(self.ca.read_bytes())

    def list_users(self, home: Path) -> None:
        """Write a shard's file of users, with the currently valid passwords. Raises CannotCreateError."""
        everything = grants.line(MASTER_KEY, [grants.Grant("@all", ("*",), ("*",))], self.passwords[MASTER_KEY])
        named = {user: self.passwords[user] for user in grants.USERS}
        users = f"{rendering.users_of(named, DEFAULT_PARTITIONS)}{everything}\n"
        private_files.write(home / "users.acl", users, replace=True)

    def certify(
        self, home: Path, names: list[str], name: str = CERTIFICATE, later: float = 0.0, strange: bool = False
    ) -> None:
        """Issue a certificate for ``names``, as ``name.pem`` and ``name.key`` in ``home``, that is valid for some weeks
        from ``later`` seconds after now on; ``strange``: by an untrusted authority.

        Raises CannotCreateError.
        """
        from acquisition.certificates import files, making

        by = _authority() if strange else self.authority
        files.write(making.issue(by, names, _now() + timedelta(seconds=later), _DAYS_OF_SHARDS), home, name)


def make(directory: Path) -> Access:
    """A new authority, with new passwords. Raises CannotCreateError."""
    from acquisition.certificates import files

    authority = _authority()
    files.write(authority, directory / _AUTHORITY, files.AUTHORITY)
    made = Access(directory, authority, {user: f"password-of-{user}" for user in (*grants.USERS, MASTER_KEY)})
    (directory / _PASSWORDS).mkdir(mode=0o700)
    for user, password in made.passwords.items():
        private_files.write(made.password_file(user), f"{password}\n", replace=True)
    return made


def _authority() -> Pair:
    """An authority old enough to have issued expired certificates."""
    from acquisition.certificates import making

    return making.authority(making.SHARDS, _now() - timedelta(days=_DAYS), 2 * _DAYS)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
