"""The hosts of the refill experiment, as a child program.

    python -m experiments.refill.generator     (orders and answers as JSON lines)

The first order is the task. The hosts live through ``ticks`` seconds as fast as the shard takes it, by a clock of
their own that ends now; so their rings, which are files, hold what they would after that time. Then
their probes start again and are served by the real clock until ``stop``.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any

from acquisition.link.resp import Address, Credentials, parse_address
from acquisition.outbox.shedding import SHED_AFTER
from acquisition.outbox.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.wire.frame import Samples
from acquisition.wire.table import Table
from experiments.emulation.emulated_host import Common
from experiments.emulation.membership import Membership, first_serials
from experiments.emulation.values import STRIP_ROWS
from experiments.emulation.workload import Workload, host_name, host_number
from experiments.processes.control import Orders, say

_WAIT = 0.01
_RING_BYTES = 16 << 20
_FILL_SECONDS = 300.0


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The moment that was set, as CLOCK_MONOTONIC."""
        return self.now


class Host:
    """One host with the product's writer and ring file."""

    def __init__(self, common: Common, index: int, seeds: list[Address], ring: str, seconds: float) -> None:
        self._common = common
        self._index = index
        self._seeds = seeds
        self._ring = ring
        self._seconds = seconds
        self._start = common.strip.start(index)
        self._members = Membership(common.workload, index, first_serials(common.workload))

    def begin(self, clock: Callable[[], float], shed_after: float) -> None:
        """Start its probe, once more if there was one: it goes on with its ring."""
        outbox = Outbox(self._ring, _RING_BYTES, self._seconds, clock)
        number, name = host_number(self._index), host_name(self._index)
        self.writer = Writer(number, name, self._seeds, Credentials(), outbox, shed_after=shed_after)
        self.window = outbox.window(self._common.set_id)
        self.due = 0.0

    def offer_names(self, wall: float, monotonic: float) -> None:
        """Say who the rows are."""
        common = self._common
        entities = self._members.entities()
        names = Table(host_name(self._index), common.set.name, 1.0, "emulated", True, common.set.metrics, entities)
        self.writer.offer_table(names, int(wall), wall, monotonic)

    def sample(self, number: int, wall: float, monotonic: float) -> None:
        """Make frame ``number``."""
        common, workload = self._common, self._common.workload
        if self.writer.wants_table(common.set_id):
            self.offer_names(wall, monotonic)
        row = (self._start + number * common.strip.stride) % STRIP_ROWS
        values, codes = common.strip.cut(row, workload.entities)
        self.writer.offer(
            Samples(
                common.set_id, common.schema, workload.entities, workload.metrics, 1.0, int(wall), wall, monotonic,
                self._members.members.ids, values, codes,
            )
        )  # fmt: skip

    def serve(self, now: float) -> None:
        """Let the writer do what it has to do."""
        self.due = self.writer.service(now)


class Hosts:
    """All of them in one loop over poll(2)."""

    def __init__(self, task: dict[str, Any], orders: Orders) -> None:
        self._orders = orders
        common = Common(Workload(**task["workload"]))
        seeds = [parse_address(text) for text in task["shards"]]
        self._hosts = [
            Host(common, index, seeds, f"{task['rings']}/{index}", task["ring_seconds"])
            for index in range(common.workload.hosts)
        ]

    def fill(self, ticks: int) -> None:
        """Live through so many seconds; every frame is acknowledged before the next second begins. So fast a
        clock makes any filter look slow: nothing is shed for that."""
        clock = Clock()
        for host in self._hosts:
            host.begin(clock, float("inf"))
        end, ahead = time.monotonic(), time.time() - time.monotonic()
        deadline = end + _FILL_SECONDS
        for number in range(ticks):
            clock.now = now = end - ticks + number
            for host in self._hosts:
                host.sample(number, now + ahead, now)
                host.serve(now)
            self._await_acknowledged(now, deadline)

    def restart(self) -> None:
        """Start all probes again, by the real clock; return when the filter has applied what they had made."""
        for host in self._hosts:
            host.writer.close()
            host.begin(time.monotonic, SHED_AFTER)
        deadline = time.monotonic() + _FILL_SECONDS
        while any(host.window.applied < host.window.last for host in self._hosts):
            self.attend()
            if time.monotonic() > deadline:
                raise SystemExit("the filter did not apply what the hosts had made")

    def _await_acknowledged(self, now: float, deadline: float) -> None:
        waiting = self._hosts
        while waiting:
            waiting = [host for host in waiting if host.window.acked < host.window.last]
            self._poll(waiting, _WAIT if waiting else 0.0)
            for host in waiting:
                host.serve(now)
            if time.monotonic() > deadline:
                raise SystemExit("the shard did not take what the hosts had made")

    def attend(self) -> bool:
        """Serve by the real clock whom something has come for and who is due; whether orders have come."""
        ready = self._poll(self._hosts, _WAIT)
        now = time.monotonic()
        for host in self._hosts:
            if now >= host.due or host.writer.fileno() in ready:
                host.serve(now)
        return self._orders.fileno() in ready

    def _poll(self, hosts: list[Host], seconds: float) -> set[int]:
        poll = select.poll()
        poll.register(self._orders.fileno(), select.POLLIN)
        for host in hosts:
            if host.writer.fileno() >= 0:
                poll.register(host.writer.fileno(), host.writer.events())
        return {descriptor for descriptor, _ in poll.poll(seconds * 1000.0)}

    def report(self) -> dict[str, Any]:
        """Frames made and sent again, and what was lost."""
        accounts = [host.writer.account() for host in self._hosts]
        names = ("frames", "made", "resent_frames", "shed_samples")
        return {name: sum(account[name] for account in accounts) for name in names}

    def close(self) -> None:
        """Close all writers."""
        for host in self._hosts:
            host.writer.close()


def main() -> None:
    """See the module."""
    orders = Orders()
    task = orders.wait()
    hosts = Hosts(task, orders)
    hosts.fill(task["ticks"])
    hosts.restart()
    say({"ready": True})
    while not (hosts.attend() and any(order["do"] == "stop" for order in orders.read())):
        pass
    say(hosts.report())
    hosts.close()


if __name__ == "__main__":
    main()
