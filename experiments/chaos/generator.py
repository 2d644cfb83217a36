"""A share of the emulated hosts as a program: it may be killed with -9 at any moment and started again.

    python -m experiments.chaos.generator     (orders and answers as JSON lines, see ``experiments.processes.control``)

The first order is the task. Then ``{"do": "step", "seconds": S}`` steps the wall clock of all
hosts, ``{"do": "finish"}`` ends the making of frames (answered; what waits is still sent), and
``{"do": "report"}`` is answered with the writers' accounts.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from acquisition.errors import ShardpulseError
from acquisition.link.resp import parse_address
from experiments.chaos.event_loop import EventLoop
from experiments.chaos.load import Load
from experiments.chaos.logged_host import LoggedHost
from experiments.processes.control import Orders, say
from probes.schedule import phase_of


class Generator:
    """Makes the frames of its hosts on a grid of the monotonic clock, each host at its hashed phase.

    A host whose moment is more than an interval late misses it: no frame is made. ``ahead`` is by how
    much the emulated machines' wall clock is wrong.
    """

    def __init__(self, hosts: list[LoggedHost], load: Load, ahead: float, orders: Orders) -> None:
        self._load = load
        self._orders = orders
        self._loop = EventLoop(hosts, orders.fileno())
        self._ahead = ahead
        self._finished = False
        self._missed = 0
        now = time.monotonic()
        self._moments = {host.index: self._next(host, now) for host in hosts}

    def run(self) -> None:
        """Until the parent is gone or ends this process."""
        hosts = self._loop.hosts
        while True:
            wake = math.inf if self._finished else min(self._moments.values())
            if self._loop.turn(wake):
                for order in self._orders.read():
                    self._obey(order)
            now = time.monotonic()
            for host in hosts if not self._finished else ():
                if self._moments[host.index] <= now:
                    self._sample(host, now)

    def _sample(self, host: LoggedHost, now: float) -> None:
        moment = self._moments[host.index]
        late = math.floor((now - moment) / self._load.interval)
        self._missed += late
        moment += late * self._load.interval
        self._moments[host.index] = moment + self._load.interval
        monotonic = moment - self._load.early(host.index, host.made)
        host.sample(time.time() - time.monotonic() + monotonic + self._ahead, monotonic)
        self._loop.serve(host, now)

    def _next(self, host: LoggedHost, now: float) -> float:
        """The host's next moment: a multiple of the interval, and its phase."""
        interval, phase = self._load.interval, phase_of(host.number, self._load.interval)
        return (math.floor((now - phase) / interval) + 1) * interval + phase

    def _obey(self, order: dict[str, Any]) -> None:
        if order["do"] == "step":
            self._ahead += float(order["seconds"])
        elif order["do"] == "finish":
            self._finished = True
            say({"finished": sum(host.made for host in self._loop.hosts)})
        elif order["do"] == "report":
            accounts = {str(host.index): host.writer.account() for host in self._loop.hosts}
            say({"missed": self._missed, "accounts": accounts})


def main() -> None:
    """Run until the parent is gone; what keeps a host from starting is said and ends the program."""
    orders = Orders()
    task = orders.wait()
    load = Load(**task["load"])
    seeds = [parse_address(text) for text in task["shards"]]
    rings, logs = Path(task["rings"]), Path(task["logs"])
    hosts = []
    try:
        for index in task["hosts"]:
            ring, log = rings / f"host{index:05d}.ring", logs / f"host{index:05d}.log"
            hosts.append(LoggedHost(load, index, seeds, ring, log, task["ring_bytes"], task["held_seconds"]))
    except ShardpulseError as error:
        say({"failed": f"host {index}: {error}"})
        return
    say({"ready": True})
    Generator(hosts, load, task["ahead"], orders).run()


if __name__ == "__main__":
    main()
