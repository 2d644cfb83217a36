"""The load of the experiment: emulated hosts whose links can be cut and healed.

    python -m experiments.catch_up.generator     (orders and answers as JSON lines on stdin and stdout)

The first order is the task; then ``start``, ``cut`` (the first so many hosts lose their connections and
make frames all the same), ``heal``, and ``stop``, which is answered when everything is drained.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import time
from typing import Any

from acquisition.link.resp import parse_address
from acquisition.model.ticks import tick_of
from experiments.emulation.emulated_host import Common, EmulatedHost
from experiments.emulation.fleet import Fleet
from experiments.emulation.pacing import Paced
from experiments.emulation.workload import Workload
from experiments.processes.control import Orders, say

_CONNECT_SECONDS = 60.0
_LOOK_SECONDS = 0.005  #: how often writers that want to be served by the clock are looked for


class FragileFleet(Fleet[EmulatedHost]):
    """``cut`` hosts are not served: nothing of theirs goes out or comes in."""

    cut: frozenset[int] = frozenset()

    def serve(self, host: EmulatedHost, now: float) -> None:
        """Serve a host that has a link."""
        if host.index not in self.cut:
            super().serve(host, now)

    def break_links(self, count: int) -> None:
        """The first ``count`` hosts lose their connections, and cannot make others."""
        now = time.monotonic()
        for host in self.hosts[:count]:
            descriptor = host.writer.fileno()
            if descriptor >= 0:
                with socket.socket(fileno=os.dup(descriptor)) as link:
                    link.shutdown(socket.SHUT_RDWR)
                self.serve(host, now)  # it notices, and leaves the event loop
        self.cut = frozenset(host.index for host in self.hosts[:count])

    def heal(self) -> None:
        """All links work again; writers find that out when they try next."""
        self.cut = frozenset()
        self.lag_seconds = 0.0

    def serve_due(self, now: float) -> None:
        """Serve the writers whose time has come: the paced loop serves them at their ticks only."""
        for host in self.hosts:
            if host.due <= now:
                self.serve(host, now)


class Director:
    """Carries out orders while hosts sample."""

    def __init__(self, fleet: FragileFleet, orders: Orders) -> None:
        self._fleet = fleet
        self._orders = orders
        self._look = 0.0

    def __call__(self, called: bool) -> bool:
        """What the sampling loop asks all the time: whether to stop."""
        now = time.monotonic()
        if now >= self._look:
            self._look = now + _LOOK_SECONDS
            self._fleet.serve_due(now)
        for order in self._orders.read() if called else ():
            if order["do"] == "cut":
                self._fleet.break_links(order["hosts"])
            elif order["do"] == "heal":
                self._fleet.heal()
            elif order["do"] == "stop":
                return True
        return False


def main() -> None:
    """Run until stopped; see the module."""
    orders = Orders()
    task = orders.wait()
    fleet = _build(task, orders)
    if not _drain(fleet, _CONNECT_SECONDS):
        sys.exit("the shards or the filter did not take the tables of all emulated hosts")
    gc.collect()
    gc.freeze()
    say({"ready": True})
    orders.wait()
    Paced(fleet, task["workload"]["interval"]).run(Director(fleet, orders))
    counts = fleet.counts()
    fleet.cut = frozenset()
    drained = _drain(fleet, task["drain_seconds"])
    resent = sum(host.account()["resent_frames"] for host in fleet.hosts)
    say({"drained": drained, "resent_frames": resent, **counts._asdict()})
    fleet.close()


def _build(task: dict[str, Any], orders: Orders) -> FragileFleet:
    """All hosts, their tables offered."""
    common = Common(Workload(**task["workload"]))
    seeds = [parse_address(text) for text in task["shards"]]
    old = task["old_seconds"]
    fleet = FragileFleet(
        [
            EmulatedHost(
                common,
                index,
                seeds,
                task["held_frames"],
                task["held_seconds"],
                task["position_interval"],
                False,
                old=float("inf") if old is None else old,
            )
            for index in range(common.workload.hosts)
        ],
        orders.fileno(),
    )
    for host in fleet.hosts:
        wall, monotonic = time.time(), time.monotonic()
        host.offer_table(tick_of(wall, common.workload.interval), wall, monotonic)
        fleet.serve(host, monotonic)
    return fleet


def _drain(fleet: FragileFleet, seconds: float) -> bool:
    """Serve until the filter is known to have applied everything; false when ``seconds`` pass before."""
    deadline = time.monotonic() + seconds
    while any(host.waiting() for host in fleet.hosts):
        if time.monotonic() > deadline:
            return False
        fleet.attend(0.005)
        fleet.serve_due(time.monotonic())
    return True


if __name__ == "__main__":
    main()
