"""Bare writer: one XADD of a frame per connection and interval, as reference.

    python -m experiments.scale.bare_writer     (orders and answers as JSON lines on stdin and stdout)

As many connections as the pipeline has hosts, the same phases, the same streams, frames of the same
size, each sent alone when due (no pipelining), with its reply read. ``MAXLEN ~`` keeps
as much in each stream as the pipeline keeps there. Order: ``{shard, hosts, workload, maxlen}``, answered with
``{ready}``; ``{do: "start"}``; ``{do: "mark"}`` is answered with ``{frames, missed}``; ``{do: "stop"}`` ends it.
"""

from __future__ import annotations

import select
import socket
from typing import Any

import hiredis

from acquisition.wire import keys
from experiments.emulation import bare_entries
from experiments.emulation.director import Director, raise_descriptor_limit
from experiments.emulation.fleet import Fleet
from experiments.emulation.pacing import Paced
from experiments.emulation.workload import Workload, host_number
from experiments.processes.control import Orders, say

_NEVER = float("inf")


class BareHost:
    """One connection, its own writer; ``answered`` counts the entries accepted by the shard."""

    def __init__(self, index: int, shard: str, head: bytes, payloads: list[bytes], samples: int) -> None:
        self.index = index
        self.number = host_number(index)
        self.due = _NEVER
        self.registered = (-1, 0, 0)
        self.answered = 0
        self.connection = bare_entries.connect(shard)
        self.fileno = self.connection.fileno
        self.close = self.connection.close
        self.waits_for = (self.connection.fileno(), select.EPOLLIN, 0)
        self._reader: Any = hiredis.Reader()
        self._head = head
        self._payloads = payloads
        self._samples = samples

    @property
    def writer(self) -> BareHost:
        """The host itself, for the event loop."""
        return self

    def early(self) -> float:
        """Always 0: frames are sent when due."""
        return 0.0

    def sample(self, tick: int, _wall: float, _monotonic: float) -> int:
        """Send the frame of a tick."""
        self.connection.sendall(self._head + self._payloads[(self.index + tick) % bare_entries.FRAMES])
        return self._samples

    def service(self, _now: float) -> float:
        """Read replies. Raises RuntimeError if the shard refuses an entry."""
        try:
            self._reader.feed(self.connection.recv(65536, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return _NEVER
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, Exception):
                raise RuntimeError(f"the shard refused an entry: {reply}")
            self.answered += 1
        return _NEVER


def main() -> None:
    """Serve the orders; see the module."""
    orders = Orders()
    task = orders.wait()
    raise_descriptor_limit()
    workload = Workload(**task["workload"])
    fleet = Fleet(_hosts(task["shard"], workload, task["maxlen"]), orders.fileno())
    for host in fleet.hosts:
        fleet.serve(host, 0.0)
    say({"ready": True})
    assert orders.wait()["do"] == "start"

    def mark(_order: object) -> None:
        answered = sum(host.answered for host in fleet.hosts)
        say({"frames": fleet.frames, "missed": fleet.missed, "answered": answered})

    actions = {"mark": mark, "stop": lambda _: True}
    Paced(fleet, workload.interval, alone=True).run(Director(fleet, orders, actions))


def _hosts(shard: str, workload: Workload, maxlen: int) -> list[BareHost]:
    tags = keys.tags(keys.DEFAULT_PARTITIONS)
    frames = bare_entries.payloads(workload)
    keyed = [keys.raw(tags[keys.partition_of(host_number(index), len(tags))]) for index in range(workload.hosts)]
    return [
        BareHost(index, shard, bare_entries.head(key, maxlen), frames, workload.samples_per_frame)
        for index, key in enumerate(keyed)
    ]


if __name__ == "__main__":
    main()
