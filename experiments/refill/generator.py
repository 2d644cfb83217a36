"""The hosts of the refill experiment, as a child program.

    python -m experiments.refill.generator     (orders and answers as JSON lines)

The first order is the task. The hosts live through ``ticks`` seconds as fast as the shard takes it, by a clock of
their own that ends now; so their rings, which are files, hold what they would after that time. Then
their probes start again and are served by the real clock until ``stop``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from acquisition.link.resp import parse_address
from acquisition.outbox.shedding import SHED_AFTER
from experiments.emulation.director import Director
from experiments.emulation.emulated_host import Common, EmulatedHost, Held
from experiments.emulation.fleet import Fleet, drain
from experiments.emulation.workload import Workload
from experiments.processes.control import Orders, say

_WAIT = 0.01
_RING_BYTES = 16 << 20
_POSITION_SECONDS = 2.0
_FILL_SECONDS = 300.0


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The moment that was set, as CLOCK_MONOTONIC."""
        return self.now


def start(task: dict[str, Any], other: int, clock: Callable[[], float], shed_after: float) -> Fleet[EmulatedHost]:
    """Start the probes of all hosts, once more if there were some: they go on with their rings."""
    common = Common(Workload(**task["workload"]))
    seeds = [parse_address(text) for text in task["shards"]]
    frames = _RING_BYTES // common.frame_bytes()
    hosts = [
        EmulatedHost(
            common, index, seeds, Held(frames, task["ring_seconds"], f"{task['rings']}/{index}", clock),
            _POSITION_SECONDS, shed_after=shed_after,
        )
        for index in range(common.workload.hosts)
    ]  # fmt: skip
    return Fleet(hosts, other, clock)


def fill(task: dict[str, Any], other: int) -> None:
    """Live through so many seconds; every frame is acknowledged before the next second begins. So fast a
    clock makes any filter look slow: nothing is shed for that."""
    clock = Clock()
    fleet = start(task, other, clock, float("inf"))
    end, ahead = time.monotonic(), time.time() - time.monotonic()
    for number in range(task["ticks"]):
        clock.now = now = end - task["ticks"] + number
        for host in fleet.hosts:
            fleet.sample(host, int(now + ahead), now + ahead, now, now)
        if not fleet.serve_until(lambda host: host.window.acked < host.window.last, _FILL_SECONDS):
            raise SystemExit("the shard did not take what the hosts had made")
    fleet.close()


def main() -> None:
    """See the module."""
    orders = Orders()
    task = orders.wait()
    fill(task, orders.fileno())
    fleet = start(task, orders.fileno(), time.monotonic, SHED_AFTER)
    if not drain(fleet, _FILL_SECONDS):
        raise SystemExit("the filter did not apply what the hosts had made")
    say({"ready": True})
    director = Director(fleet, orders, {"stop": lambda _: True}, _WAIT)
    while not director(fleet.attend(_WAIT)):
        pass
    accounts = [host.writer.account() for host in fleet.hosts]
    names = ("frames", "made", "resent_frames", "shed_samples")
    say({name: sum(account[name] for account in accounts) for name in names})
    fleet.close()


if __name__ == "__main__":
    main()
