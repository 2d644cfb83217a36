"""The load generator: a share of the emulated hosts, as a program that ``experiments.ingest`` starts.

    python -m experiments.emulation.generator     (orders and answers as JSON lines on stdin and stdout)

The first order is the task; then ``start``, ``mark`` (answered with the counts so far) and
``stop``: no more frames are made, what is waiting is drained, and the last answer has
the counts, the writers' accounts and the times of the frames of the hosts to be checked.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

from acquisition.errors import UnavailableError
from acquisition.link.resp import parse_address
from acquisition.model.ticks import tick_of
from experiments.emulation.emulated_host import Common, EmulatedHost, SampledHost
from experiments.emulation.fleet import Fleet
from experiments.emulation.lean_host import LeanHost
from experiments.emulation.pacing import ClosedLoop, Paced
from experiments.emulation.workload import Workload
from experiments.processes.control import Orders, say
from experiments.processes.profiler import profiling

_CONNECT_SECONDS = 60.0
_CONNECTED_AT_ONCE = 64


def main() -> None:
    """Run until stopped; see the module."""
    orders = Orders()
    task = orders.wait()
    _raise_descriptor_limit()
    fleet = _build(task, orders)
    if not _drain(fleet, _CONNECT_SECONDS):
        sys.exit("the shards or the filter did not take the tables of all emulated hosts")
    gc.collect()
    gc.freeze()  # a million long-lived objects: never look at them again
    say({"ready": True})
    assert orders.wait()["do"] == "start"
    with profiling(task["profile"]):
        _generate(task, fleet, orders)
    drained = _drain(fleet, task["drain_seconds"])
    say(_report(fleet, drained))
    fleet.close()


def _raise_descriptor_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _build(task: dict[str, Any], orders: Orders) -> Fleet[SampledHost]:
    """All hosts of this process, connected, with their tables offered."""
    workload = Workload(**task["workload"])
    common = Common(workload)
    seeds = [parse_address(text) for text in task["shards"]]
    checked = frozenset(task["checked"])
    fleet: Fleet[SampledHost] = Fleet(
        [
            LeanHost(common, index, seeds, task["position_interval"], index in checked)
            if task["lean"]
            else EmulatedHost(
                common,
                index,
                seeds,
                task["held_frames"],
                task["held_seconds"],
                task["position_interval"],
                index in checked,
            )
            for index in range(*task["hosts"])
        ],
        orders.fileno(),
    )
    for first in range(0, len(fleet.hosts), _CONNECTED_AT_ONCE):
        _connect(fleet, fleet.hosts[first : first + _CONNECTED_AT_ONCE], workload.interval)
    return fleet


def _connect(fleet: Fleet[SampledHost], hosts: Sequence[SampledHost], interval: float) -> None:
    """Offer the tables of some hosts and wait until they are connected."""
    for host in hosts:
        wall, monotonic = time.time(), time.monotonic()
        host.offer_table(tick_of(wall, interval), wall, monotonic)
        fleet.serve(host, monotonic)
    deadline = time.monotonic() + _CONNECT_SECONDS
    while any(host.writer.problem for host in hosts):
        if time.monotonic() > deadline:
            raise UnavailableError(next(host.writer.problem for host in hosts if host.writer.problem))
        fleet.attend(0.01)
        now = time.monotonic()
        for host in hosts:
            fleet.serve(host, now)


def _generate(task: dict[str, Any], fleet: Fleet[SampledHost], orders: Orders) -> None:
    def stopped(called: bool) -> bool:
        if called:
            for order in orders.read():
                if order["do"] == "mark":
                    say(fleet.counts()._asdict())
                elif order["do"] == "stop":
                    return True
        return False

    interval = task["workload"]["interval"]
    loop: ClosedLoop[SampledHost] | Paced[SampledHost]
    loop = ClosedLoop(fleet, interval, task["outstanding"]) if task["outstanding"] else Paced(fleet, interval)
    loop.run(stopped)


def _drain(fleet: Fleet[SampledHost], seconds: float) -> bool:
    """Serve all writers until the filter has applied everything; false when ``seconds`` pass before."""
    deadline = time.monotonic() + seconds
    waiting = list(fleet.hosts)
    while waiting and time.monotonic() < deadline:
        now = time.monotonic()
        for host in waiting:
            fleet.serve(host, now)
        fleet.attend(0.02)
        waiting = [host for host in waiting if host.waiting()]
    return not waiting


def _report(fleet: Fleet[SampledHost], drained: bool) -> dict[str, Any]:
    logs = {str(host.index): host.log for host in fleet.hosts if host.log is not None}
    totals: dict[str, float] = {}
    for host in fleet.hosts:
        for name, value in host.account().items():
            totals[name] = totals.get(name, 0) + value
    return {"counts": fleet.counts()._asdict(), "drained": drained, "writers": totals, "logs": logs}


if __name__ == "__main__":
    main()
