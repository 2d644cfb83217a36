"""A worker under load wakes for many connections at once, and not for answers that can wait."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from acquisition.link.resp import Address, Connection
from filters.worker.loop.channel import Channel
from filters.worker.loop.poller import Poller
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.settings import FilterSettings
from tests.support.waiting import PATIENCE


class Peer:
    """A connected channel and the other end of its connection."""

    def __init__(self, server: socket.socket, number: int) -> None:
        empty = Partition(number, f"p{number}", 64, FilterSettings())
        self.channel = Channel(empty)
        self.channel.adopt(empty, Connection(Address(*server.getsockname())))
        self.end, _ = server.accept()

    def close(self) -> None:
        """Close both ends."""
        self.end.close()
        self.channel.abandon(self.channel.partition, None)


@pytest.fixture
def peers() -> Iterator[tuple[Peer, Peer]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        closing(Peer(server, 0)) as first,
        closing(Peer(server, 1)) as second,
    ):
        yield first, second


def test_a_channel_that_lingers_is_left_alone_until_it_reads(peers: tuple[Peer, Peer]) -> None:
    poller, peer = Poller(), peers[0]
    poller.add(peer.channel)
    peer.channel.read()
    peer.end.sendall(b"+OK\r\n$-1\r\n*1\r\n*2\r\n$1\r\nk\r\n*100\r\n" + b"*2\r\n$3\r\n1-0\r\n*0\r\n" * 100)
    assert poller.wait(PATIENCE, 0.0).channels == [peer.channel]
    entries = peer.channel.receive() or []
    assert len(entries) == 100
    with peer.channel.partition.batch(entries) as batch:
        peer.channel.commit(batch, 0.0, 1.0)
    poller.follow(peer.channel)
    peer.end.sendall(b"+OK\r\n")
    assert poller.wait(0.05, 0.0).channels == []
    peer.channel.read()
    poller.follow(peer.channel)
    assert poller.wait(PATIENCE, 0.0).channels == [peer.channel]


def test_who_comes_soon_after_the_first_is_taken_with_it(
    peers: tuple[Peer, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    poller, (first, second) = Poller(), peers
    poller.add(first.channel)
    poller.add(second.channel)
    monkeypatch.setattr(time, "sleep", lambda _: second.end.sendall(b"+OK\r\n"))

    def together() -> bool:
        """Not where this thread came so late that the first one had waited."""
        later = threading.Timer(0.05, first.end.sendall, (b"+OK\r\n",))
        later.start()
        found = poller.wait(PATIENCE, 1e-3).channels
        later.join()
        for channel in found:
            channel.receive()
        return set(found) == {first.channel, second.channel}

    assert any(together() for _ in range(20))


def test_who_has_waited_meanwhile_is_taken_at_once(peers: tuple[Peer, Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    poller, (first, second) = Poller(), peers
    poller.add(first.channel)
    poller.add(second.channel)
    monkeypatch.setattr(time, "sleep", lambda _: second.end.sendall(b"+OK\r\n"))
    first.end.sendall(b"+OK\r\n")
    assert poller.wait(PATIENCE, 1e-3).channels == [first.channel]


def test_nobody_is_gathered_when_nothing_has_come(peers: tuple[Peer, Peer]) -> None:
    poller = Poller()
    poller.add(peers[0].channel)
    assert poller.wait(0.0, PATIENCE).channels == []
