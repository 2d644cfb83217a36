"""What has to hold before anything is sent to a shard: over loopback whose process it is, beyond it TLS and a user.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import _socket
from typing import Any

from acquisition.errors import AdmissionError, ShardError
from acquisition.link.trust import listener
from acquisition.link.trust.credentials import Credentials

_OLDEST = 7  #: with TLS: before it no server tells clients names to verify, and none has selectors
_DEMANDED = "is not on loopback, so it takes TLS and a user: set [shards] tls_ca, username and password_file"
#: What to say of a shard that takes no part in a handshake: a Redis without TLS waits for the end of a line.
NO_TLS = "does not answer in TLS: name its TLS port, or leave out [shards] tls_ca"
#: What to say of a shard that ends a connection without TLS before it has answered anything.
PERHAPS_TLS = "; if it speaks TLS only, set [shards] tls_ca"


def check(made: _socket.socket, credentials: Credentials | None, address: object) -> None:
    """Raise ShardError when a connection that is to send a password leads over loopback to a process of none of
    the ``owners``, AdmissionError when one leads to another machine without TLS or without a user."""
    try:
        peer, own = made.getpeername(), made.getsockname()
    except OSError as error:  # it has been closed meanwhile
        raise ShardError(f"the connection is gone: {error}") from error
    known = credentials is not None and bool(credentials.password)
    if listener.is_loopback(peer[0]):
        if credentials is not None and known:
            listener.check(peer, own, credentials.owners)
    elif not suffices(credentials):
        raise demanded(address)


def suffices(credentials: Credentials | None) -> bool:
    """Whether shards of other machines may be spoken to with these: over TLS, as a user with a password."""
    return credentials is not None and bool(credentials.password) and bool(credentials.authority)


def demanded(address: object) -> AdmissionError:
    """What to say of a shard of another machine where ``suffices`` is False."""
    return AdmissionError(f"shard {address} {_DEMANDED}")


def greeting(credentials: Credentials) -> tuple[str, ...]:
    """The command that logs in; with TLS the server says of which version it is. Raises ShardError when the password
    cannot be read."""
    user = ("AUTH", credentials.username, credentials.secret())
    return ("HELLO", "2", *user) if credentials.authority else user


def check_greeted(reply: Any, address: object) -> None:
    """Take the answer to ``greeting``. Raises AdmissionError for a server with TLS that is too old, ShardError for one
    that does not say of which version it is."""
    if not isinstance(reply, list):
        return
    try:
        version = reply[reply.index(b"version") + 1].decode()
        major = int(version.partition(".")[0])
    except (ValueError, IndexError, AttributeError) as error:  # UnicodeDecodeError is a ValueError
        raise ShardError(f"shard {address} does not say of which version it is: {reply!r:.200}") from error
    if major < _OLDEST:
        raise AdmissionError(f"shard {address} is Redis {version}: with TLS {_OLDEST}.0 or newer is needed")
