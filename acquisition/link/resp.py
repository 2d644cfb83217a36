"""Lean connection to one shard: RESP2 through hiredis over a plain socket.

redis-py costs 20 MB in every process that imports it and several times the CPU per
command; hiredis with ``socket`` costs 1.5 MB (docs/decisions/0004). Cluster
administration, which happens rarely, uses redis-py.

Error replies of a shard are returned as values (``hiredis.ReplyError``) by the
methods with several replies, so that one refused command does not hide the
answers to the others; ``raise_for`` turns such a value into the error tree.
"""

from __future__ import annotations

from _thread import _local as ThreadLocal
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import hiredis

from acquisition.errors import MovedError, PermissionRefused, ShardError, ShardpulseError, TemporaryError
from acquisition.link.trust import admission
from acquisition.link.trust.credentials import Credentials

if TYPE_CHECKING:
    import socket

    from acquisition.link.trust.tls import Secured

ReplyError = hiredis.ReplyError
Argument = bytes | str | int | float
Word = bytes | str
#: pack((b"GET", b"key")) -> bytes (hiredis' own annotation knows only tuples of one element). Never pass it a number:
#: hiredis 3 takes its repr and does not check whether that failed because of a signal (a crash on Ctrl-C).
pack: Callable[[tuple[Word, ...]], bytes] = cast(Any, hiredis.pack_command)

_TEMPORARY = ("LOADING", "CLUSTERDOWN", "TRYAGAIN", "OOM", "READONLY", "BUSY", "MASTERDOWN", "NOREPLICAS", "EXECABORT")
_MOVED = ("MOVED", "ASK")
_NO_MAJORITY = "CLUSTERDOWN The cluster is down"  #: reply of a shard while too few masters reach each other
MOST_PIECES = 1000  #: limit of one call of sendmsg: IOV_MAX is 1024
_PERMISSION = ("NOAUTH", "NOPERM", "WRONGPASS")
_NO_RIGHT = "NOPERM"
_LOG_IN = "set [shards] username and password_file"
_GRANT = (
    "grant the user this right on this shard (`shardpulse shards render users` prints each user's rights), "
    "or set [shards] username and password_file to a user that has it"
)


def packed(command: Iterable[Argument] | bytes) -> bytes:
    """A command, possibly with numbers, as sent; a packed one is returned unchanged."""
    if isinstance(command, bytes):
        return command
    return pack(tuple([str(word) if isinstance(word, int | float) else word for word in command]))


def front(words: int, *first: str) -> bytes:
    """Beginning of a command with this number of words, of which ``first`` are the first; the others are appended with
    ``word``. For commands sent with every commit, as ``pack`` checks each word again."""
    return b"*%d\r\n" % words + b"".join([word(each.encode()) for each in first])


def word(data: bytes) -> bytes:
    """One word of a packed command."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


class _Received(ThreadLocal):
    """One buffer for all connections of a thread: received data are copied on at once."""

    _buffer: bytearray | None = None

    @property
    def buffer(self) -> bytearray:
        """Buffer of this thread, created by its first connection: a probe has none."""
        if self._buffer is None:
            self._buffer = bytearray(1 << 18)
        return self._buffer


_RECEIVED = _Received()


class Address(NamedTuple):
    """Address of a shard."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """``HOST:PORT`` or ``[IPV6]:PORT``. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"invalid address {text!r}: expected HOST:PORT")
    return Address(host.strip("[]"), int(port))


class Answered(ReplyError):
    """Error reply of the shard at the address ``where``; ``asked`` is the command, if known."""

    def __init__(self, text: str, where: Address) -> None:
        super().__init__(text)
        self.where = where
        self.asked = ""

    def tell(self, command: Sequence[Argument] | bytes) -> None:
        """Note the command that was answered."""
        self.asked = asked_with(command)


def asked_with(command: Sequence[Argument] | bytes) -> str:
    """A command and the kind of its first key (all keys of MGET), as in lists for users: ``GET status:{*}:*``."""
    words = command.split(b"\r\n")[2::2] if isinstance(command, bytes) else command
    count = len(words) if words[0] in ("MGET", b"MGET") else 2
    name, *keys = (word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in words[:count])
    return " ".join([name, *dict.fromkeys(_kind_of(key) for key in keys)])


def _kind_of(key: str) -> str:
    first, brace, rest = key.partition("{")
    return f"{first}{{*}}{':*' * rest.partition('}')[2].startswith(':')}" if brace else key


def error_for(error: object, where: object = "") -> ShardpulseError:
    """Member of the error tree for an error reply; unknown ones are ShardError."""
    text = str(error)
    word = text.partition(" ")[0].upper()
    if isinstance(error, Answered):
        where = where or error.where
    at = f"shard {where}: " if where else "shard: "
    if word in _PERMISSION:
        asked = f" (asked: {error.asked})" if isinstance(error, Answered) and error.asked else ""
        return PermissionRefused(f"{at}{text}{asked}; {_GRANT if word == _NO_RIGHT else _LOG_IN}")
    if text == _NO_MAJORITY:
        text += (
            ": it answers only while more than half of the masters do (two masters have no majority without each other)"
        )
    if word in _TEMPORARY:
        return TemporaryError(f"{at}{text}")
    return (MovedError if word in _MOVED else ShardError)(f"{at}{text}")


def raise_for(reply: Any, where: object = "") -> Any:
    """Return ``reply``, or raise the error it stands for: an error reply, or no reply."""
    if isinstance(reply, ReplyError):
        raise error_for(reply, where)
    if isinstance(reply, ShardpulseError):
        raise reply
    return reply


class Connection:
    """One blocking connection. ``timeout`` in seconds bounds connect, send and every reply.

    Raises ShardError if the shard cannot be reached or hangs up, or is not a shard (``trust.admission``).
    """

    def __init__(self, address: Address, credentials: Credentials | None = None, timeout: float = 2.0) -> None:
        import socket  # not for the probe, which imports this module and has its own connections

        self.address = address
        self._reader = hiredis.Reader(replyError=lambda text: Answered(text, address))
        self._reader.setmaxbuf(0)  # keep the parser's buffer: freeing it costs page faults at every large reply
        try:
            plain = socket.create_connection(address, timeout)
        except OSError as error:
            raise ShardError(f"shard {address} is unreachable: {error}") from error
        self._socket: socket.socket | Secured = plain
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            admission.check(plain, credentials, address)
            if credentials is not None:
                self._log_in(plain, credentials)
        except BaseException:
            self.close()
            raise

    def _log_in(self, plain: socket.socket, credentials: Credentials) -> None:
        if credentials.authority:
            from acquisition.link.trust import tls  # loads OpenSSL

            name, authority, timeout = self.address.host, credentials.authority, plain.gettimeout()
            self._socket = made = tls.Secured(plain, authority, name)
            try:
                made.handshake()
            except OSError as error:
                if not (credentials.expired and tls.has_expired(error)):
                    raise ShardError(f"shard {self.address} {tls.explain(error, name, authority)}") from error
                from acquisition.link.trust import expired

                made.close()
                self._socket = expired.connect(self.address, credentials, timeout)
        if credentials.password:
            greeting = packed(admission.greeting(credentials))
            try:
                self.send(greeting)
                reply = self.receive()
            except ShardError as error:
                raise error if credentials.authority else ShardError(f"{error}{admission.PERHAPS_TLS}") from error
            admission.check_greeted(raise_for(reply, self.address), self.address)

    def fileno(self) -> int:
        """For select and poll."""
        return self._socket.fileno()

    def settimeout(self, timeout: float | None) -> None:
        """Change the timeout of later calls; None waits for ever."""
        self._socket.settimeout(timeout)

    def close(self) -> None:
        """Close; calling it again is harmless."""
        self._socket.close()

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send packed commands; replies are fetched with ``receive`` or ``poll``."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ShardError(f"shard {self.address}: {error}") from error

    def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Send as much of packed commands, up to MOST_PIECES, as is accepted at once; returns the bytes sent. Only
        the kernel joins them. If waiting is allowed (``settimeout``), it waits until the first byte can be sent."""
        try:
            return self._socket.sendmsg(pieces)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ShardError(f"shard {self.address}: {error}") from error

    def receive(self) -> Any:
        """The next reply (errors as values), waiting at most ``timeout``."""
        reply = self._next()
        while reply is False:
            self._fill()
            reply = self._next()
        return reply

    def receive_many(self, count: int) -> list[Any]:
        """The next ``count`` replies, as ``receive``."""
        replies: list[Any] = []
        try:
            gets = self._reader.gets
            while len(replies) < count:
                reply = gets()
                if reply is False:
                    self._fill()
                else:
                    replies.append(reply)
        except hiredis.ProtocolError as error:
            raise ShardError(f"{self.address} is not a Redis server: {error}") from error
        return replies

    def poll(self) -> list[Any]:
        """Replies completed by one read of the socket: call when it is readable."""
        try:
            self._fill()
        except BlockingIOError:  # part of a TLS record
            return []
        replies: list[Any] = []
        try:
            gets = self._reader.gets
            while (reply := gets()) is not False:
                replies.append(reply)
        except hiredis.ProtocolError as error:
            raise ShardError(f"{self.address} is not a Redis server: {error}") from error
        return replies

    def call(self, *command: Any) -> Any:
        """One command and its reply; an error reply is raised."""
        self.send(packed(command))
        reply = self.receive()
        if isinstance(reply, Answered):
            reply.tell(command)
        return raise_for(reply, self.address)

    def pipeline(self, commands: Sequence[tuple[Any, ...] | bytes]) -> list[Any]:
        """Several commands in one write; their replies in order, errors as values."""
        self.send(b"".join([packed(command) for command in commands]))
        return self.receive_many(len(commands))

    def _next(self) -> Any:
        """The next complete reply, False if there is none."""
        try:
            return self._reader.gets()
        except hiredis.ProtocolError as error:
            raise ShardError(f"{self.address} is not a Redis server: {error}") from error

    def _fill(self) -> None:
        buffer = _RECEIVED.buffer
        self._reader.feed(cast(bytes, buffer), 0, self._receive(buffer))  # any buffer will do

    def _receive(self, buffer: bytearray) -> int:
        """Number of received bytes, at least one."""
        try:
            count = self._socket.recv_into(buffer)
        except TimeoutError as error:
            raise ShardError(f"shard {self.address} timed out") from error
        except BlockingIOError:
            raise
        except OSError as error:
            raise ShardError(f"shard {self.address}: {error}") from error
        if not count:
            raise ShardError(f"shard {self.address} closed the connection")
        return count
