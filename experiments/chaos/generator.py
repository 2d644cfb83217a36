"""Generator process: a share of the emulated hosts, restartable after kill -9.

    python -m experiments.chaos.generator     (orders and answers as JSON lines, see ``experiments.processes.control``)

The first order is the task. Then ``{"do": "step", "seconds": S}`` steps the wall clock of all
hosts, ``{"do": "finish"}`` ends frame generation (answered; waiting frames are still sent), and
``{"do": "report"}`` is answered with the writers' accounts, ``{"do": "problems"}`` with their problems.
``{"do": "talk", "loud": true}`` makes talkative hosts use all of their turns, ``{"do": "goodbye"}`` ends all hosts in
order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acquisition.errors import ShardpulseError
from acquisition.link.resp import parse_address
from acquisition.link.trust.credentials import Credentials
from experiments.chaos.load import Load
from experiments.chaos.logged_host import LoggedHost
from experiments.emulation.director import Action, Director
from experiments.emulation.fleet import Fleet
from experiments.emulation.pacing import Paced, Turn
from experiments.processes.control import Orders, say

_LOOK_SECONDS = 0.02
_GOODBYE_SECONDS = 5.0


class TalkingFleet(Fleet[LoggedHost]):
    """A talkative host has several turns in each interval, and uses only the first unless it is ``loud``."""

    loud = False

    def sample(self, host: LoggedHost, tick: int, wall: float, monotonic: float, now: float) -> None:
        """Make the next frame of a host, if it is its turn."""
        if self.loud or not tick % host.slots:
            super().sample(host, tick, wall, monotonic, now)

    def turn_loud(self, order: dict[str, Any]) -> None:
        """Switch loudness on or off."""
        self.loud = order["loud"]


def main() -> None:
    """Run until the parent is gone; an error that keeps a host from starting is reported and ends the program."""
    orders = Orders()
    task = orders.wait()
    try:
        hosts = _hosts(task)
    except ShardpulseError as error:
        say({"failed": str(error)})
        return
    fleet = TalkingFleet(hosts, orders.fileno())
    say({"ready": True})
    step_clocks(hosts, task["ahead"])

    def report(_order: object) -> None:
        say({"missed": fleet.missed, "accounts": {str(host.index): host.writer.account() for host in hosts}})

    def say_goodbye(_order: object) -> None:
        for host in hosts:
            host.writer.finish(_GOODBYE_SECONDS)
        say({"stopped": True})
        raise SystemExit(0)

    actions: dict[str, Action] = {
        "step": lambda order: step_clocks(hosts, order["seconds"]),
        "finish": lambda _: True,
        "report": report,
        "talk": fleet.turn_loud,
        "goodbye": say_goodbye,
        "problems": lambda _: say({"problems": sorted({host.writer.problem for host in hosts} - {""})}),
    }
    director = Director(fleet, orders, actions, _LOOK_SECONDS)
    interval = task["load"]["interval"]
    Paced(fleet, interval, [turn for host in hosts for turn in Turn.of(host, interval, host.slots)]).run(director)
    if task["load"]["talkative"]:
        for host in hosts:
            host.writer.finish(0.0)  # an end frame reports to the filter what was shed before it
    say({"finished": sum(host.made for host in hosts)})
    while True:
        director(fleet.attend(_LOOK_SECONDS))


def step_clocks(hosts: list[LoggedHost], seconds: float) -> None:
    """Step the wall clocks of the emulated machines."""
    for host in hosts:
        host.ahead += seconds


def _hosts(task: dict[str, Any]) -> list[LoggedHost]:
    """Hosts of this process, in the state left by an earlier one. Raises ShardpulseError naming the host."""
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
