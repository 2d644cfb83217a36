"""The other side of the comparison: one XADD of a frame per connection and interval, and nothing else.

    python -m experiments.scale.bare_writer     (orders and answers as JSON lines on stdin and stdout)

As many connections as the pipeline has hosts, the same phases, the same streams, frames of the same
size, each sent alone when its time has come (no pipelining) and its reply read. ``MAXLEN ~`` keeps
as much in each stream as the pipeline keeps there. Order: ``{shard, hosts, workload, maxlen}``, answered with
``{ready}``; ``{do: "start"}``; ``{do: "mark"}`` is answered with ``{frames, missed}``; ``{do: "stop"}`` ends it.
"""

from __future__ import annotations

import resource
import select
import socket
import time
from typing import Any

import hiredis

from acquisition.link.resp import parse_address
from acquisition.model.ticks import tick_of
from acquisition.wire import frame as wire
from acquisition.wire import keys
from acquisition.wire.frame import Frame
from experiments.emulation.membership import Membership, first_serials
from experiments.emulation.values import Strip
from experiments.emulation.workload import Workload, host_number
from experiments.processes.control import Orders, say
from probes.schedule import phase_of

_FRAMES = 64  #: different frames; each is sent by many hosts
_LONGEST_SLEEP = 0.05


def main() -> None:
    """Serve the orders; see the module."""
    orders = Orders()
    task = orders.wait()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    workload = Workload(**task["workload"])
    writer = BareWriter(task["shard"], workload, task["maxlen"])
    say({"ready": True})
    assert orders.wait()["do"] == "start"
    writer.run(orders)


class BareWriter:
    """All connections, and whose turn it is."""

    def __init__(self, shard: str, workload: Workload, maxlen: int) -> None:
        self._interval = workload.interval
        self._payloads = payloads(workload)
        self._poll = select.epoll()
        tags = keys.tags(keys.DEFAULT_PARTITIONS)
        turns = []
        self._readers: dict[int, tuple[socket.socket, Any]] = {}
        for index in range(workload.hosts):
            number = host_number(index)
            connection = _connect(shard)
            self._readers[connection.fileno()] = connection, hiredis.Reader()
            self._poll.register(connection.fileno(), select.EPOLLIN)
            head = _head(keys.raw(tags[keys.partition_of(number, len(tags))]), maxlen)
            turns.append((phase_of(number, self._interval), index, head, connection))
        self._turns = sorted(turns, key=lambda turn: turn[:2])
        self.frames = self.missed = self.answered = 0

    def run(self, orders: Orders) -> None:
        """Send every interval until told to stop."""
        self._poll.register(orders.fileno(), select.EPOLLIN)
        tick = tick_of(time.time(), self._interval) + 1
        while self._one_tick(tick, orders):
            tick += 1

    def _one_tick(self, tick: int, orders: Orders) -> bool:
        base = tick * self._interval - (time.time() - time.monotonic())
        for phase, index, head, connection in self._turns:
            while (now := time.monotonic()) < base + phase:
                time.sleep(min(base + phase - now, _LONGEST_SLEEP))
                if not self._attend(orders):
                    return False
            if now - base - phase > self._interval:
                self.missed += 1
                continue
            connection.sendall(head + self._payloads[(index + tick) % _FRAMES])
            self.frames += 1
        return self._attend(orders)

    def _attend(self, orders: Orders) -> bool:
        """Read replies; false when told to stop. Raises RuntimeError when a shard refuses an entry."""
        for descriptor, _ in self._poll.poll(0.0):
            if descriptor == orders.fileno():
                for order in orders.read():
                    if order["do"] == "stop":
                        return False
                    say({"frames": self.frames, "missed": self.missed, "answered": self.answered})
                continue
            connection, reader = self._readers[descriptor]
            reader.feed(connection.recv(65536))
            while (reply := reader.gets()) is not False:
                if isinstance(reply, Exception):
                    raise RuntimeError(f"the shard refused an entry: {reply}")
                self.answered += 1
        return True


def payloads(workload: Workload) -> list[bytes]:
    """Frames as the emulated hosts make them, as the last argument of an XADD."""
    strip = Strip(workload)
    members = Membership(workload, 0, first_serials(workload)).members
    made = []
    for number in range(_FRAMES):
        values, codes = strip.cut(strip.row(strip.start(0), number), workload.entities)
        frame = Frame(
            wire.KIND_SAMPLES, 1, host_number(0), 1, workload.entities, workload.metrics, workload.interval, 1,
            number + 1, 1, number * workload.samples_per_frame, number, time.time(), time.monotonic(),
            members.ids, values, codes,
        )  # fmt: skip
        data = wire.encode(frame)
        made.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return made


def _head(key: str, maxlen: int) -> bytes:
    limit = str(maxlen)
    return (
        f"*8\r\n$4\r\nXADD\r\n${len(key)}\r\n{key}\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n${len(limit)}\r\n{limit}\r\n"
        "$1\r\n*\r\n$1\r\nf\r\n"
    ).encode()


def _connect(shard: str) -> socket.socket:
    address = parse_address(shard)
    connection = socket.create_connection((address.host, address.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


if __name__ == "__main__":
    main()
