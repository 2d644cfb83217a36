"""Load generator process with a share of the emulated hosts.

    python -m experiments.emulation.generator     (orders and answers as JSON lines on stdin and stdout)

The first order is the task; then ``start``, ``mark`` (answered with the counts so far) and ``stop``: no more frames are
made, waiting ones are drained, and the last answer has the counts, the writers' accounts and the times of the frames of
the hosts to be checked.
"""

from __future__ import annotations

import math
from typing import Any

from acquisition.link.resp import parse_address
from acquisition.link.trust.credentials import Credentials
from acquisition.outbox.shedding import SHED_AFTER
from experiments.emulation.director import Action, Director, keep_what_lives, raise_descriptor_limit
from experiments.emulation.emulated_host import Common, EmulatedHost, Held, SampledHost
from experiments.emulation.fleet import Fleet, drain, introduce
from experiments.emulation.lanes import Lanes
from experiments.emulation.lean_host import LeanHost
from experiments.emulation.lean_turns import LeanTurns, lanes_of
from experiments.emulation.pacing import ClosedLoop, Paced
from experiments.emulation.workload import Workload
from experiments.processes.control import Orders, say
from experiments.processes.profiler import profiling


def main() -> None:
    """Run until stopped; see the module."""
    orders = Orders()
    task = orders.wait()
    raise_descriptor_limit()
    interval = task["workload"]["interval"]
    common = Common(Workload(**task["workload"]))
    lanes = lanes_of(common, task["hosts"][1] - task["hosts"][0]) if task["lean"] else None
    hosts = _hosts(task, common, lanes)
    fleet = Fleet(hosts, orders.fileno())
    introduce(fleet, interval)
    keep_what_lives()
    say({"ready": True})
    assert orders.wait()["do"] == "start"
    loop: ClosedLoop[SampledHost] | Paced[SampledHost]
    if task["outstanding"]:
        loop = ClosedLoop(fleet, interval, task["outstanding"])
    else:
        many = None if lanes is None else LeanTurns(lanes, fleet, task["hosts"][0])
        loop = Paced(fleet, interval, many=many, joining=task["joining"])
    with profiling(task["profile"]):
        actions: dict[str, Action] = {"mark": lambda _: say(fleet.counts()._asdict()), "stop": lambda _: True}
        loop.run(Director(fleet, orders, actions))
    drained = drain(fleet, task["drain_seconds"])
    say(_report(fleet, drained))
    fleet.close()


def _hosts(task: dict[str, Any], common: Common, lanes: Lanes | None) -> list[SampledHost]:
    """The hosts of this process."""
    seeds = [parse_address(text) for text in task["shards"]]
    credentials = Credentials(*task["credentials"])
    checked, interval = frozenset(task["checked"]), task["position_interval"]
    if task["lean"]:
        return [
            LeanHost(common, index, seeds, interval, index in checked, credentials, lanes, number)
            for number, index in enumerate(range(*task["hosts"]))
        ]
    held = Held(task["held_frames"], task["held_seconds"])
    # a closed loop waits for slow parts: on a busy machine nothing is shed because of them.
    patience = math.inf if task["outstanding"] else SHED_AFTER
    return [
        EmulatedHost(common, index, seeds, held, interval, index in checked, patience, task["old_seconds"], credentials)
        for index in range(*task["hosts"])
    ]


def _report(fleet: Fleet[SampledHost], drained: bool) -> dict[str, Any]:
    logs = {str(host.index): host.log for host in fleet.hosts if host.log is not None}
    totals: dict[str, float] = {}
    for host in fleet.hosts:
        for name, value in host.account().items():
            totals[name] = totals.get(name, 0) + value
    return {"counts": fleet.counts()._asdict(), "drained": drained, "writers": totals, "logs": logs}


if __name__ == "__main__":
    main()
