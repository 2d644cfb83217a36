"""What has to hold before a shard is told a password: over loopback whose process it is, with TLS that it is Redis 7.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import _socket
from typing import Any

from acquisition.errors import ConfigError, ShardError
from acquisition.link import listener
from acquisition.link.credentials import Credentials

_OLDEST = 7  #: with TLS: before it no server tells clients names to verify, and none has selectors
#: What to say of a shard that takes no part in a handshake: a Redis without TLS waits for the end of a line.
NO_TLS = "does not answer in TLS: name its TLS port, or leave out [shards] tls_ca"
#: What to say of a shard that ends a connection without TLS before it has answered anything.
PERHAPS_TLS = "; if it speaks TLS only, set [shards] tls_ca"


def check(made: _socket.socket, credentials: Credentials) -> None:
    """Raise ShardError when a connection leads over loopback to a process that is none of the ``owners``."""
    try:
        peer, own = made.getpeername(), made.getsockname()
    except OSError as error:  # it has been closed meanwhile
        raise ShardError(f"the connection is gone: {error}") from error
    if listener.is_loopback(peer[0]):
        listener.check(peer, own, credentials.owners)


def greeting(credentials: Credentials) -> tuple[str, ...]:
    """The command that logs in; with TLS the server says of which version it is."""
    user = ("AUTH", credentials.username, credentials.password)
    return ("HELLO", "2", *user) if credentials.authority else user


def check_greeted(reply: Any, address: object) -> None:
    """Take the answer to ``greeting``. Raises ConfigError for a server with TLS that is too old."""
    if isinstance(reply, list):
        version = dict(zip(reply[::2], reply[1::2], strict=False)).get(b"version", b"")
        if not int(version.partition(b".")[0] or 0) >= _OLDEST:
            raise ConfigError(f"shard {address} is Redis {version.decode()}: with TLS {_OLDEST}.0 or newer is needed")
