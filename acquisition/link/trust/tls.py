"""TLS 1.3 over a connected socket, verified against one authority and name.

``_ssl`` is the C module behind ``ssl``, whose enums and classes would cost every probe 0.6 MB and some time per call.
Only our authority is loaded, and no client certificate is sent: clients log in with user and password.

Import this module only if TLS is needed: it costs a probe 1.7 MB.
"""

from __future__ import annotations

import _socket
import _ssl
import errno
import os
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from acquisition.errors import ConfigError, ShardError
from acquisition.link.trust.admission import NO_TLS

# X509_verify_cert_error_string(3)
_EXPIRED = 10
_BEYOND_ITS_TIME = {
    9: "is not valid yet: check the clocks",
    _EXPIRED: "has expired: issue a new one; `shardpulse shards certificates --expired` makes a running "
    "shard reload it",
}
_OTHER_NAME = (62, 64)
_NO_TLS = (
    "WRONG_VERSION_NUMBER",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "HTTP_REQUEST",
    "UNEXPECTED_MESSAGE",
)


_AT_ONCE = 1 << 16  #: bytes passed to TLS at once: all of them are accepted, or none
_NO_CHECK_TIME = 0x200000  #: X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which has no name in ``ssl``
_OVER = (_ssl.SSLZeroReturnError, _ssl.SSLEOFError)  #: errors at the end of a connection closed by the other side


class Context(_ssl._SSLContext):
    """Requires TLS 1.3, a certificate and the right name in it."""

    @classmethod
    def of(cls, authority: str) -> Context:
        """Context that trusts the certificates in a file."""
        made = cls(_ssl.PROTOCOL_TLS_CLIENT)
        made.demand()
        made.load_verify_locations(authority)
        return made

    def demand(self) -> None:
        """Refuse versions before 1.3."""
        self.minimum_version = _ssl.PROTO_TLSv1_3

    def ignore_time(self) -> None:
        """Accept certificates outside their validity period from now on."""
        self.verify_flags |= _NO_CHECK_TIME


_contexts: dict[str, tuple[tuple[int, ...], Any]] = {}  #: by authority, with the file that was read


def context(authority: str) -> Any:
    """Context that trusts only the certificates in the file ``authority``; recreated when the file has
    changed, which takes some milliseconds. Raises ConfigError if it cannot be read or contains none."""
    try:
        found = os.stat(authority)
        version = (found.st_ino, found.st_mtime_ns, found.st_size)
        known = _contexts.get(authority)
        if known is None or known[0] != version:
            known = _contexts[authority] = version, Context.of(authority)
    except OSError as error:  # SSLError is one
        problem = "contains no certificate" if isinstance(error, _ssl.SSLError) else f"cannot be read: {error.strerror}"
        raise ConfigError(f"key shards.tls_ca: {authority} {problem}") from error
    return known[1]


class _Socket(_socket.socket):
    """Socket that supports weak references, as required by ``_ssl``."""

    __slots__ = ("__weakref__",)


class Secured:
    """Connected socket with TLS and the methods that connections here use. ``name`` is that of the server.

    It waits if the socket does; a non-blocking one raises BlockingIOError. The socket belongs to it from then on.
    Raises ShardError if ``context`` raises ConfigError.
    """

    __slots__ = ("_made", "_plain")

    def __init__(
        self, plain: _socket.socket, authority: str, name: str, contexts: Callable[[str], Any] = context
    ) -> None:
        try:
            believing = contexts(authority)
        except ConfigError as error:  # a file replaced since the start: it may be complete the next time
            raise ShardError(str(error)) from error
        timeout = plain.gettimeout()
        self._plain = _Socket(fileno=plain.detach())
        self._plain.settimeout(timeout)
        self._made: Any = believing._wrap_socket(self._plain, False, name)

    def handshake(self) -> int:
        """Continue the handshake: 0 when it is done, else the events to poll the socket for.

        Raises OSError: ``explain`` returns the reason.
        """
        try:
            self._made.do_handshake()
        except _ssl.SSLWantReadError:
            return select.POLLIN
        except _ssl.SSLWantWriteError:
            return select.POLLOUT
        return 0

    def certificate(self) -> bytes:
        """Certificate of the server (DER), once the handshake is done."""
        shown: bytes = self._made.getpeercert(True)
        return shown

    def fileno(self) -> int:
        """As of the socket."""
        return self._plain.fileno()

    def settimeout(self, timeout: float | None) -> None:
        """As of the socket."""
        self._plain.settimeout(timeout)

    def close(self) -> None:
        """Close the socket without a TLS close message: a shard needs none."""
        self._plain.close()

    def send(self, data: bytes | memoryview) -> int:
        """Send all of ``data``, or raise BlockingIOError: then the same must be sent again."""
        try:
            return int(self._made.write(data))
        except (_ssl.SSLWantReadError, _ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error
        except _OVER as error:
            raise _reset() from error

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of ``data``."""
        view = memoryview(data)
        try:
            while view:
                view = view[self._made.write(view) :]
        except _OVER as error:
            raise _reset() from error

    def sendmsg(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Send as much of the pieces as is accepted at once, or raise BlockingIOError; returns the bytes sent. The next
        call must begin with the rest. TLS takes one piece after the other, so they are joined."""
        view = memoryview(b"".join(pieces))
        sent = 0
        with suppress(BlockingIOError):
            while sent < len(view):
                sent += self.send(view[sent : sent + _AT_ONCE])
        if view and not sent:
            raise BlockingIOError
        return sent

    def recv(self, size: int) -> bytes:
        """Received bytes, b"" at the end. A ``size`` of a record (16 KiB) or more leaves no data buffered that
        poll(2) does not see."""
        try:
            return bytes(self._made.read(size))
        except (_ssl.SSLWantReadError, _ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error
        except _OVER:
            return b""

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        """As ``recv``, into a ``buffer`` of a record or more; returns the number of bytes."""
        try:
            return int(self._made.read(len(buffer), buffer))
        except (_ssl.SSLWantReadError, _ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error
        except _OVER:
            return 0


def _reset() -> OSError:
    """Error of a socket without TLS that the other side has closed."""
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


def explain(error: OSError, name: str, authority: str) -> str:
    """Reason for a failed handshake, and the remedy, as text to follow ``shard HOST:PORT``."""
    code = getattr(error, "verify_code", 0)
    if code in _BEYOND_ITS_TIME:
        return f"has a certificate that {_BEYOND_ITS_TIME[code]}"
    if code in _OTHER_NAME:
        return (
            f"has a certificate for names other than {name}: use one of those, or issue a certificate "
            "that includes this name"
        )
    if code:
        return (
            f"has a certificate from an authority that is not in {authority} ([shards] tls_ca): {error.verify_message}"  # type: ignore[attr-defined]
        )
    if getattr(error, "reason", None) in _NO_TLS:
        return "does not speak TLS on this port: use its TLS port, or unset [shards] tls_ca"
    if isinstance(error, TimeoutError):
        return NO_TLS
    return f"aborted the TLS handshake: {error.strerror or error}"


def has_expired(error: OSError) -> bool:
    """Whether a handshake failed only because a certificate has expired."""
    return getattr(error, "verify_code", 0) == _EXPIRED


def needs_a_person(error: OSError) -> bool:
    """Whether a handshake will fail again until someone intervenes."""
    return bool(getattr(error, "verify_code", 0)) or getattr(error, "reason", None) in _NO_TLS
