"""The load of the experiment: emulated hosts whose links can be cut and healed.

    python -m experiments.catch_up.generator     (orders and answers as JSON lines on stdin and stdout)

The first order is the task; then ``start``, ``cut`` (the first so many hosts lose their connections and
make frames all the same), ``heal``, and ``stop``, which is answered when everything is drained.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from acquisition.link.resp import parse_address
from experiments.emulation.director import Director, keep_what_lives
from experiments.emulation.emulated_host import Common, EmulatedHost, Held
from experiments.emulation.fleet import Fleet, drain, introduce
from experiments.emulation.pacing import Paced
from experiments.emulation.workload import Workload
from experiments.processes.control import Orders, say

_LOOK_SECONDS = 0.005


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


def main() -> None:
    """Run until stopped; see the module."""
    orders = Orders()
    task = orders.wait()
    fleet = FragileFleet(_hosts(task), orders.fileno())
    interval = task["workload"]["interval"]
    introduce(fleet, interval)
    keep_what_lives()
    say({"ready": True})
    orders.wait()
    actions = {
        "cut": lambda order: fleet.break_links(order["hosts"]),
        "heal": lambda _: fleet.heal(),
        "stop": lambda _: True,
    }
    Paced(fleet, interval).run(Director(fleet, orders, actions, _LOOK_SECONDS))
    counts = fleet.counts()
    fleet.cut = frozenset()
    drained = drain(fleet, task["drain_seconds"])
    resent = sum(host.account()["resent_frames"] for host in fleet.hosts)
    say({"drained": drained, "resent_frames": resent, **counts._asdict()})
    fleet.close()


def _hosts(task: dict[str, Any]) -> list[EmulatedHost]:
    common = Common(Workload(**task["workload"]))
    seeds = [parse_address(text) for text in task["shards"]]
    old = float("inf") if task["old_seconds"] is None else task["old_seconds"]
    held, interval = Held(task["held_frames"], task["held_seconds"]), task["position_interval"]
    return [EmulatedHost(common, index, seeds, held, interval, old=old) for index in range(common.workload.hosts)]


if __name__ == "__main__":
    main()
