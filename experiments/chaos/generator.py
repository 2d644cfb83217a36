"""A share of the emulated hosts as a program: it may be killed with -9 at any moment and started again.

    python -m experiments.chaos.generator     (orders and answers as JSON lines, see ``experiments.processes.control``)

The first order is the task. Then ``{"do": "step", "seconds": S}`` steps the wall clock of all
hosts, ``{"do": "finish"}`` ends the making of frames (answered; what waits is still sent), and
``{"do": "report"}`` is answered with the writers' accounts, ``{"do": "problems"}`` with what they say is wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acquisition.errors import ShardpulseError
from acquisition.link.credentials import Credentials
from acquisition.link.resp import parse_address
from experiments.chaos.load import Load
from experiments.chaos.logged_host import LoggedHost
from experiments.emulation.director import Action, Director
from experiments.emulation.fleet import Fleet
from experiments.emulation.pacing import Paced
from experiments.processes.control import Orders, say

_LOOK_SECONDS = 0.02


def main() -> None:
    """Run until the parent is gone; what keeps a host from starting is said and ends the program."""
    orders = Orders()
    task = orders.wait()
    try:
        hosts = _hosts(task)
    except ShardpulseError as error:
        say({"failed": str(error)})
        return
    fleet = Fleet(hosts, orders.fileno())
    say({"ready": True})
    step_clocks(hosts, task["ahead"])

    def report(_order: object) -> None:
        say({"missed": fleet.missed, "accounts": {str(host.index): host.writer.account() for host in hosts}})

    actions: dict[str, Action] = {
        "step": lambda order: step_clocks(hosts, order["seconds"]),
        "finish": lambda _: True,
        "report": report,
        "problems": lambda _: say({"problems": sorted({host.writer.problem for host in hosts} - {""})}),
    }
    director = Director(fleet, orders, actions, _LOOK_SECONDS)
    Paced(fleet, task["load"]["interval"]).run(director)
    say({"finished": sum(host.made for host in hosts)})
    while True:
        director(fleet.attend(_LOOK_SECONDS))


def step_clocks(hosts: list[LoggedHost], seconds: float) -> None:
    """Step the wall clocks of the emulated machines."""
    for host in hosts:
        host.ahead += seconds


def _hosts(task: dict[str, Any]) -> list[LoggedHost]:
    """The hosts of this process, where an earlier one left them. Raises ShardpulseError that names the host."""
    load = Load(**task["load"])
    seeds = [parse_address(text) for text in task["shards"]]
    credentials = Credentials(*task["credentials"])
    rings, logs = Path(task["rings"]), Path(task["logs"])
    hosts = []
    for index in task["hosts"]:
        ring, log = rings / f"host{index:05d}.ring", logs / f"host{index:05d}.log"
        try:
            size, seconds = task["ring_bytes"], task["held_seconds"]
            hosts.append(LoggedHost(load, index, seeds, ring, log, size, seconds, credentials))
        except ShardpulseError as error:
            raise ShardpulseError(f"host {index}: {error}") from error
    return hosts


if __name__ == "__main__":
    main()
