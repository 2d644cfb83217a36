"""Non-blocking connection to one shard.

::

    LOOKING_UP (a name, in a thread) ──▶ CONNECTING ──▶ SECURING (with TLS) ──▶ OPEN

Any error is a ConnectionFailed and ends it. ``_socket`` is the C module behind ``socket``, whose enums and selectors
would cost every probe 0.2 MB.
"""

from __future__ import annotations

import _socket
import _thread
import errno
import select
from typing import TYPE_CHECKING, Any, NoReturn

import hiredis

from acquisition.errors import AdmissionError, ShardError, ShardpulseError
from acquisition.link.resp import Address
from acquisition.link.trust import admission
from acquisition.link.trust.credentials import Credentials

if TYPE_CHECKING:
    from acquisition.link.trust.tls import Secured


#: Family and socket address, for ``_socket.socket`` and ``connect``.
Target = tuple[int, Any]


def begin_connect(target: Target) -> _socket.socket:
    """Socket that is connecting to ``target``. Raises OSError if that fails at once."""
    made = _socket.socket(target[0], _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        status = made.connect_ex(target[1])
        if status not in (0, errno.EINPROGRESS):
            raise OSError(status, errno.errorcode.get(status, "error"))
    except OSError:
        made.close()
        raise
    return made


def is_connected(made: _socket.socket) -> bool:
    """Whether a socket of ``begin_connect`` is connected. Raises OSError if it cannot be."""
    status = made.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
    if status:
        raise ConnectionRefusedError(status, errno.errorcode.get(status, "error"))
    try:
        peer = made.getpeername()
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            return False
        raise
    if peer == made.getsockname():
        # loopback: the kernel chose the very port to be reached
        raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
    return True


def numeric(address: Address) -> Target | None:
    """Target of a numeric address, None for a name."""
    try:
        return _first(address, _socket.AI_NUMERICHOST)
    except _socket.gaierror:
        return None


class Lookup:
    """One look-up in progress. ``found`` is None until there is a target, or an error.

    ``getaddrinfo`` may take arbitrarily long, and a probe's ticks do not wait; so a name is looked up in a thread of
    its own. Numeric addresses need none."""

    def __init__(self, address: Address) -> None:
        self.found: Target | OSError | None = None
        self._address = address
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self.found = _first(self._address, 0)
        except (OSError, UnicodeError) as error:
            # without its traceback: that refers back to here, and a probe collects no cycles
            self.found = error.with_traceback(None) if isinstance(error, OSError) else OSError(str(error))


def _first(address: Address, flags: int) -> Target:
    # a str would load the idna codec: half a megabyte in every probe
    host = address.host.encode("ascii") if address.host.isascii() else address.host
    found = _socket.getaddrinfo(host, address.port, type=_socket.SOCK_STREAM, flags=flags)
    return found[0][0], found[0][4]


LOOKING_UP, CONNECTING, SECURING, OPEN, CLOSED = range(5)
NOT_ADMITTED = "admission"  #: kind of error that no retry repairs: see AdmissionError
_LOOKUP_POLL = 0.02
_MOST_BYTES = 1 << 14  #: per read


class ConnectionFailed(ShardError):
    """Reason a connection ended: ``kind`` is a word to count it by; ``needs_a_person`` is whether it will not pass
    by itself."""

    def __init__(self, kind: str, problem: str, needs_a_person: bool = False) -> None:
        super().__init__(problem)
        self.kind, self.needs_a_person = kind, needs_a_person


class ShardConnection:
    """``timeout`` bounds the way to an open connection, ``patience`` a handshake, for which many may be waiting.

    ``due`` is when to call ``advance`` if nothing happens before; ``lookups`` are those in progress, also of
    earlier connections. Raises ConnectionFailed, as ``advance``, ``send``, ``flush`` and ``receive`` do.
    """

    def __init__(
        self,
        address: Address,
        credentials: Credentials | None,
        lookups: dict[Address, Lookup],
        timeout: float,
        patience: float,
        now: float,
    ) -> None:
        self.address = address
        self.due = self._deadline = now + timeout
        self.answered = False  #: whether the shard has sent anything
        self._credentials = credentials
        self._lookups = lookups
        self._patience = patience
        self._state = LOOKING_UP
        self._socket: _socket.socket | Secured | None = None
        self._wanted = select.POLLOUT  #: event that a connecting socket waits for
        self._reader = hiredis.Reader()
        self._unsent: bytes | memoryview = b""
        self.blocked = False  #: whether the socket has not yet accepted all sent data
        target = numeric(address)
        if target is not None:
            self._open(target)
        elif address not in lookups:  # a long look-up is waited for again, not started again
            lookups[address] = Lookup(address)

    @property
    def is_secured(self) -> bool:
        """Whether it uses TLS."""
        return self._credentials is not None and bool(self._credentials.authority)

    def fileno(self) -> int:
        """The socket's descriptor, -1 if absent."""
        return self._socket.fileno() if self._socket is not None else -1

    def events(self) -> int:
        """Events to poll the descriptor for."""
        if self._socket is None:
            return 0
        if self._state != OPEN:
            return self._wanted
        return select.POLLIN | select.POLLOUT if self.blocked else select.POLLIN

    def advance(self, now: float) -> bool:
        """Continue as far as possible without waiting; returns whether it is open."""
        if self._state == LOOKING_UP:
            self._finish_lookup(now)
        if self._state == CONNECTING:
            self._finish_connect(now)
        if self._state == SECURING:
            self._finish_handshake()
        if self._state != OPEN and now >= self._deadline:
            reason = admission.NO_TLS if self._state == SECURING else "timed out"
            self.fail("timeout", f"shard {self.address} {reason}")
        return self._state == OPEN

    def send(self, data: bytes) -> None:
        """Send, and keep for ``flush`` what the socket does not accept now. Only if not ``blocked``."""
        self._unsent, self.blocked = data, bool(data)
        self.flush()

    def flush(self) -> bool:
        """Send what was kept; returns whether the socket has accepted all of it."""
        if self._socket is None:
            return False
        data = self._unsent
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            return False
        except OSError as error:
            self._fail_os(error)
        self.blocked = sent != len(data)
        self._unsent = memoryview(data)[sent:] if self.blocked else b""
        return not self.blocked

    def receive(self) -> list[Any]:
        """The replies that have arrived, errors as values; without waiting."""
        if self._socket is None:
            return []
        try:
            data = self._socket.recv(_MOST_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            self._fail_os(error)
        if not data:
            self.fail("closed", f"shard {self.address} closed the connection{self._perhaps()}")
        self.answered = True
        reader = self._reader
        try:
            reader.feed(data)
            replies = []
            reply = reader.gets()
            while reply is not False:
                replies.append(reply)
                reply = reader.gets()
        except hiredis.ProtocolError as error:
            self.fail("protocol", f"{self.address} is not a Redis server: {error}", needs_a_person=True)
        return replies

    def close(self) -> None:
        """Close it; calling it again is harmless."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._state = CLOSED
        self._unsent, self.blocked = b"", False

    def fail(self, kind: str, problem: str, needs_a_person: bool = False) -> NoReturn:
        """Close it, and raise ConnectionFailed."""
        self.close()
        raise ConnectionFailed(kind, problem, needs_a_person)

    def _finish_lookup(self, now: float) -> None:
        found = self._lookups[self.address].found
        if found is None:
            self.due = min(now + _LOOKUP_POLL, self._deadline)
            return
        del self._lookups[self.address]
        if isinstance(found, OSError):
            self.fail("lookup", f"shard {self.address} is unreachable: {found.strerror or found}")
        self._open(found)

    def _open(self, target: Target) -> None:
        self.due = self._deadline
        try:
            self._socket = begin_connect(target)
        except OSError as error:
            self._fail_os(error)
        self._state = CONNECTING

    def _finish_connect(self, now: float) -> None:
        plain, known = self._socket, self._credentials
        assert isinstance(plain, _socket.socket)
        try:
            if not is_connected(plain):
                return
            admission.check(plain, known, self.address)
        except OSError as error:
            self._fail_os(error)
        except AdmissionError as error:
            self.fail(NOT_ADMITTED, str(error), needs_a_person=True)
        except ShardpulseError as error:
            self.fail("stranger", str(error), needs_a_person=True)
        if known is not None and known.authority:
            self._secure(plain, known.authority, now)
        else:
            self._state = OPEN

    def _secure(self, plain: _socket.socket, authority: str, now: float) -> None:
        """Begin the TLS handshake, with the name under which the shard was addressed."""
        from acquisition.link.trust import tls  # loads OpenSSL

        self.due = self._deadline = now + self._patience
        try:
            self._socket = tls.Secured(plain, authority, self.address.host)
        except ShardpulseError as error:
            self.fail("tls", str(error), needs_a_person=True)
        self._state = SECURING

    def _finish_handshake(self) -> None:
        from acquisition.link.trust import tls

        made = self._socket
        assert isinstance(made, tls.Secured)
        assert self._credentials is not None
        try:
            self._wanted = made.handshake()
        except OSError as error:
            why = tls.explain(error, self.address.host, self._credentials.authority)
            self.fail("tls", f"shard {self.address} {why}", tls.needs_a_person(error))
        if not self._wanted:
            self._state = OPEN

    def _perhaps(self) -> str:
        """Possible reason for an end before the first answer."""
        return admission.PERHAPS_TLS if self._state == OPEN and not self.answered and not self.is_secured else ""

    def _fail_os(self, error: OSError) -> NoReturn:
        kind = "refused" if isinstance(error, ConnectionRefusedError) else "closed"
        why = f"{error.strerror or error}{self._perhaps()}"
        self.fail(kind, f"shard {self.address} is unreachable: {why}")
