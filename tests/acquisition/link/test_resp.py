"""The lean connection: addresses, errors as values, shards that do not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from acquisition.errors import PermissionRefused, ShardError, ShardpulseError, TemporaryError
from acquisition.link import resp
from acquisition.link.resp import Address, Connection, ReplyError, error_for, parse_address, raise_for
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.servers.launch import Shards


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:6379", Address("127.0.0.1", 6379)),
        ("[::1]:1", Address("::1", 1)),
        ("shard-1.example:65535", Address("shard-1.example", 65535)),
    ],
)
def test_addresses_round_trip(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", ":6379", "host", "host:", "host:0", "host:65536", "host:-1", "host:six"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NOAUTH Authentication required.", PermissionRefused),
        ("NOPERM no", PermissionRefused),
        ("WRONGPASS no", PermissionRefused),
        ("LOADING it", TemporaryError),
        ("CLUSTERDOWN Hash slot not served", TemporaryError),
        ("CLUSTERDOWN The cluster is down", TemporaryError),
        ("TRYAGAIN", TemporaryError),
        ("OOM command not allowed", TemporaryError),
        ("READONLY replica", TemporaryError),
        ("ERR unknown command", ShardError),
        ("WRONGTYPE", ShardError),
        ("", ShardError),
    ],
)
def test_errors_of_shards_in_our_tree(text: str, kind: type[ShardpulseError]) -> None:
    error = error_for(ReplyError(text), "here")
    assert type(error) is kind
    assert text in str(error)
    assert "here" in str(error)
    with pytest.raises(kind):
        raise_for(ReplyError(text))


def test_replies_pass_and_errors_of_ours_are_raised_as_they_are() -> None:
    assert raise_for(None) is None
    assert raise_for(b"x") == b"x"
    with pytest.raises(ShardError, match="gone"):
        raise_for(ShardError("gone"))


def test_one_refused_command_does_not_hide_the_others(shards: Shards) -> None:
    connection = Connection(shards.addresses[0])
    first, second, third = connection.pipeline([("ECHO", "a"), ("NO SUCH COMMAND",), ("ECHO", b"\0\xff")])
    assert (first, third) == (b"a", b"\0\xff")
    assert isinstance(second, ReplyError)
    with pytest.raises(ShardError, match="unknown command"):
        connection.call("NO SUCH COMMAND")
    connection.close()
    connection.close()


def test_wrong_password(shards: Shards) -> None:
    with pytest.raises(PermissionRefused, match="password_file"):
        Connection(shards.addresses[0], Credentials("nobody", "wrong"))


def test_replies_that_arrive_together_are_polled_together(shards: Shards) -> None:
    connection = Connection(shards.addresses[0])
    connection.send(resp.pack(("ECHO", "a")) + resp.pack(("ECHO", "b")))
    replies: list[object] = []
    while len(replies) < 2:
        replies += connection.poll()
    assert replies == [b"a", b"b"]
    connection.close()


@pytest.fixture
def serve() -> Iterator[Callable[[bytes | None], Address]]:
    """A server that sends some bytes and hangs up, or with None only listens."""
    servers: list[socket.socket] = []

    def start(answer: bytes | None) -> Address:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def run() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1)
                peer.sendall(answer or b"")

        if answer is not None:
            threading.Thread(target=run, daemon=True).start()
        return Address(*server.getsockname())

    yield start
    for server in servers:
        server.close()


def test_shards_that_do_not_answer(serve: Callable[[bytes | None], Address]) -> None:
    with pytest.raises(ShardError, match="is unreachable"):
        Connection(Address("127.0.0.1", 1))
    silent = Connection(serve(None), timeout=0.05)
    with pytest.raises(ShardError, match="timed out"):
        silent.call("PING")
    silent.close()
    rude = Connection(serve(b""))
    with pytest.raises(ShardError, match=r"closed the connection|reset"):
        rude.call("PING")
    rude.close()


def test_something_that_is_no_redis(serve: Callable[[bytes | None], Address]) -> None:
    connection = Connection(serve(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(ShardError, match="not a Redis server"):
        connection.call("PING")
    connection.close()
