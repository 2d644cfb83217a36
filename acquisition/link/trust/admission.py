"""Admission: conditions for sending anything to a shard.

Beyond loopback these are TLS and a user. On loopback a port left by a shard can be anyone's, so the process at
the other end must belong to an owner. The kernel reports the user of every TCP socket of this machine:
of one by sock_diag(7), of all in /proc/net/tcp (proc(5)). An accepted connection has an inode and the owner of
the accepting process; one that still waits belongs to the listener.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import _socket
import sys
from contextlib import suppress
from struct import Struct
from typing import Any

from acquisition.errors import AdmissionError, ShardError
from acquisition.link.trust.credentials import Credentials

_OLDEST = 7  #: with TLS: older servers give clients no names to verify, and have no selectors
_DEMANDED = "is not on loopback: TLS and a user are required; set [shards] tls_ca, username and password_file"
#: Hint for a shard that takes no part in a handshake: a Redis without TLS waits for the end of a line.
NO_TLS = "does not speak TLS: use its TLS port, or unset [shards] tls_ca"
#: Hint for a shard that ends a connection without TLS before any answer.
PERHAPS_TLS = "; if it requires TLS, set [shards] tls_ca"

# sock_diag(7), netlink(7)
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST = 4, 20, 1
_HEADER = Struct("=IHHII")  #: length, type, flags, sequence, port
_QUESTION = Struct("=BBxxI")  #: family, protocol, states
_SOUGHT = Struct("!HH16s16s")  #: ports and addresses of the wanted socket, its own first
_ANY_INTERFACE_NO_COOKIE = bytes(4) + b"\xff" * 8
_FOUND = Struct("=64xII")  #: owner and inode in the answer
_ALL_STATES = 0xFFFFFFFF
_ANSWER_SECONDS = 1.0
_LISTENING = "0A"  #: in /proc/net/tcp
_MAPPED = b"\0" * 10 + b"\xff\xff"  #: an IPv4 address in a socket of IPv6


def check(made: _socket.socket, credentials: Credentials | None, address: object) -> None:
    """Raise ShardError if a connection that is to send a password leads over loopback to a process of none of
    the ``owners``, AdmissionError if one leads to another machine without TLS or without a user."""
    try:
        peer, own = made.getpeername(), made.getsockname()
    except OSError as error:  # closed meanwhile
        raise ShardError(f"connection lost: {error}") from error
    known = credentials is not None and bool(credentials.password)
    if is_loopback(peer[0]):
        if credentials is not None and known:
            _check_owner(peer, own, credentials.owners)
    elif not suffices(credentials):
        raise demanded(address)


def suffices(credentials: Credentials | None) -> bool:
    """Whether these suffice for shards of other machines: TLS, and a user with a password."""
    return credentials is not None and bool(credentials.password) and bool(credentials.authority)


def demanded(address: object) -> AdmissionError:
    """Error for a shard of another machine if ``suffices`` is False."""
    return AdmissionError(f"shard {address} {_DEMANDED}")


def greeting(credentials: Credentials) -> tuple[str, ...]:
    """Login command; with TLS the reply contains the server's version. Raises ShardError if the password
    cannot be read."""
    user = ("AUTH", credentials.username, credentials.secret())
    return ("HELLO", "2", *user) if credentials.authority else user


def check_greeted(reply: Any, address: object) -> None:
    """Check the reply to ``greeting``. Raises AdmissionError for a server with TLS that is too old, ShardError for one
    that does not report its version."""
    if not isinstance(reply, list):
        return
    try:
        version = reply[reply.index(b"version") + 1].decode()
        major = int(version.partition(".")[0])
    except (ValueError, IndexError, AttributeError) as error:  # UnicodeDecodeError is a ValueError
        raise ShardError(f"shard {address} reports no version: {reply!r:.200}") from error
    if major < _OLDEST:
        raise AdmissionError(f"shard {address} is Redis {version}: TLS requires {_OLDEST}.0 or newer")


# -- The process at the other end of a connection over loopback.


def is_loopback(host: str) -> bool:
    """Whether an address can only be on this machine."""
    return host.startswith(("127.", "::ffff:127.")) or host == "::1"


def _check_owner(peer: tuple[str, int], own: tuple[str, int], owners: tuple[int, ...]) -> None:
    """Raise ShardError if the connection from ``own`` to ``peer``, over loopback, leads to a process of a user other
    than ``owners``."""
    found = owner(peer, own) if owners else None
    if owners and found not in owners:
        uid = "is unknown" if found is None else f"has uid {found}"
        raise ShardError(f"{peer[0]}:{peer[1]} is not trusted as a shard: the owner of its process {uid}")


def owner(peer: tuple[str, int], own: tuple[str, int]) -> int | None:
    """Uid of the process that serves the connection from ``own`` to ``peer``; None if not found."""
    with suppress(OSError):  # a sandbox without this socket family
        found = _asked(peer, own)
        if found is not None:
            return found
    return _listed(peer, own)


def _asked(peer: tuple[str, int], own: tuple[str, int]) -> int | None:
    """As ``owner``, by sock_diag(7): 0.1 ms for any number of sockets. None also if the kernel lacks it."""
    family, there = _packed(peer[0])
    here = _packed(own[0])[1]
    netlink = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW | _socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)
    try:
        netlink.settimeout(_ANSWER_SECONDS)
        for address, port in ((here, own[1]), (bytes(len(here)), 0)):  # the connection, then the listener
            sought = _SOUGHT.pack(peer[1], port, there, address)
            question = _QUESTION.pack(family, _socket.IPPROTO_TCP, _ALL_STATES) + sought + _ANY_INTERFACE_NO_COOKIE
            netlink.send(_HEADER.pack(_HEADER.size + len(question), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0) + question)
            answer = netlink.recv(4096)
            if _HEADER.unpack_from(answer)[1] == _SOCK_DIAG_BY_FAMILY:
                uid, inode = _FOUND.unpack_from(answer, _HEADER.size)
                if inode:
                    return int(uid)
    finally:
        netlink.close()
    return None


def _listed(peer: tuple[str, int], own: tuple[str, int]) -> int | None:
    """As ``owner``, from the list of all sockets: 3 µs for each of them."""
    listening: dict[int, int] = {}  # exactness of the address match -> owner
    packed, mine = _packed(peer[0])[1], _packed(own[0])[1]
    long, my_long = (packed, mine) if len(packed) == 16 else (_MAPPED + packed, _MAPPED + mine)
    tables = [("/proc/net/tcp6", long, my_long, 2)]
    if long.startswith(_MAPPED):
        tables.insert(0, ("/proc/net/tcp", long[12:], my_long[12:], 0))
    for path, there, here, rank in tables:
        exact, remote = _place(there, peer[1]), _place(here, own[1])
        anywhere = _place(bytes(len(there)), peer[1])
        for local, other, state, uid, inode in _sockets(path, exact[-5:]):
            if local == exact and other == remote and inode != "0":
                return uid
            if state == _LISTENING and local in (exact, anywhere):
                listening.setdefault(rank + (local != exact), uid)
    return listening[min(listening)] if listening else None


def _packed(host: str) -> tuple[int, bytes]:
    family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
    return family, _socket.inet_pton(family, host)


def _place(address: bytes, port: int) -> str:
    """A place as written by the kernel: 32-bit words in the byte order of this machine."""
    words = [int.from_bytes(address[start : start + 4], sys.byteorder) for start in range(0, len(address), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _sockets(path: str, port: str) -> list[tuple[str, str, str, int, str]]:
    """Local and remote place, state, owner and inode of sockets with ``port`` (``:1DB0``)."""
    try:
        with open(path, encoding="ascii") as file:
            rows = [line.split() for line in file if port in line]
    except OSError:  # a kernel without IPv6, or a sandbox without any
        return []
    return [(row[1], row[2], row[3], int(row[7]), row[9]) for row in rows]
