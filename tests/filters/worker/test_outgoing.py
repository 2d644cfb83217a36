"""A worker does not wait for a shard to take what it sends: nothing is lost, mixed up or sent twice for that."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.errors import ShardError
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address, Connection, pack
from acquisition.wire import keys
from filters.worker.loop.channel import Channel, Outgoing
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.settings import FilterSettings
from tests.support.fixture_types import StartCluster
from tests.support.waiting import PATIENCE, eventually

LARGE = 16 << 20  #: more than sockets hold


@given(st.lists(st.lists(st.integers(0, 70_000), max_size=8), min_size=1, max_size=6), st.integers(1, 100_000))
def test_pieces_arrive_whole_and_in_order_however_little_is_taken(sizes: list[list[int]], taken: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with closing(Connection(Address(*server.getsockname()))) as connection, server.accept()[0] as end:
            connection.settimeout(0.0)
            outgoing, expected, got = Outgoing(connection), bytearray(), bytearray()
            for number, some in enumerate(sizes):
                pieces = [os.urandom(1) * size + b"%d" % number for size in some]
                expected += b"".join(pieces)
                outgoing.put(pieces)
                if len(got) < len(expected):
                    got += end.recv(taken)
            while len(got) < len(expected):
                outgoing.go_on()
                got += end.recv(taken)
            assert got == expected
            assert not outgoing


def test_thousands_of_pieces() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        closing(Connection(Address(*server.getsockname()))) as connection,
        server.accept()[0] as end,
    ):
        connection.settimeout(0.0)
        outgoing = Outgoing(connection)
        outgoing.put([b"%04d" % number for number in range(2500)])
        assert not outgoing
        assert end.recv(10_000, socket.MSG_WAITALL)[-4:] == b"2499"


@pytest.mark.few
def test_a_shard_that_hangs_holds_up_nobody_who_sends_to_it(start_cluster: StartCluster) -> None:
    running = start_cluster(1)
    with closing(running.connect()) as cluster:
        layout = read_layout(cluster)
        partition = Partition(0, layout.tags[0], layout.partitions, FilterSettings())
        channel = Channel(partition)
        channel.adopt(partition, Connection(running.addresses[0]))
        key = keys.commit(partition.tag)
        large = f"large:{{{partition.tag}}}"
        partition.also(pack(("SET", large, b"x" * LARGE)))
        os.kill(running.pids[0], signal.SIGSTOP)
        try:
            began = time.monotonic()
            channel.excuse_silence(began)
            with partition.batch([]) as batch:
                channel.commit(batch, 0.0, 0.0)
            assert time.monotonic() - began < 1.0
            assert channel.events == select.POLLIN | select.POLLOUT
            channel.check_silence(began)
            with pytest.raises(ShardError, match="timed out"):
                channel.check_silence(began + 60.0)
        finally:
            os.kill(running.pids[0], signal.SIGCONT)
        eventually(lambda: channel.events == select.POLLIN, meanwhile=channel.go_on_sending)
        eventually(lambda: cluster.call(large, "STRLEN", large) == LARGE)
        assert partition.commit_id in cluster.call(key, "GET", key)
        eventually(lambda: not channel.committing, meanwhile=lambda: _receive(channel))
        channel.abandon(partition, None)


def _receive(channel: Channel) -> None:
    if select.select([channel.fileno()], [], [], PATIENCE)[0]:
        channel.receive()
