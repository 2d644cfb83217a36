"""The hosts of the overload experiment, as a child program: some talk more while they are told so.

    python -m experiments.overload.generator     (orders and answers as JSON lines)

First order: the scenario and the shards; then ``load`` (``high`` true or false), ``mark`` (answered with what
each class has made and shed so far) and ``stop`` (answered after everything was drained).
"""

from __future__ import annotations

from typing import Any

from acquisition.link.resp import Address, parse_address
from experiments.emulation.director import Director
from experiments.emulation.emulated_host import Common, EmulatedHost, Held
from experiments.emulation.fleet import Fleet, drain
from experiments.emulation.pacing import Paced, Turn
from experiments.overload.scenario import CLASSES, TALKATIVE, TIMES, Scenario
from experiments.processes.control import Orders, say

_HELD = Held(frames=8192, seconds=600.0)
_LOOK_SECONDS = 0.02
_DRAIN_SECONDS = 60.0


class TalkingFleet(Fleet[EmulatedHost]):
    """A talkative host has ten turns per second and uses the first one alone while the load is not ``high``."""

    def __init__(self, scenario: Scenario, seeds: list[Address], other: int) -> None:
        slow = Common(scenario.workload)
        fast = Common(scenario.workload._replace(interval=1.0 / TIMES))
        super().__init__([_host(scenario, index, slow, fast, seeds) for index in range(scenario.hosts)], other)
        self.high = False
        self._scenario = scenario
        self._made = dict.fromkeys(CLASSES, 0)

    def turns(self) -> list[Turn]:
        """When each host samples within a second."""
        return [turn for host in self.hosts for turn in Turn.of(host, 1.0, self._slots(host))]

    def sample(self, host: EmulatedHost, tick: int, wall: float, monotonic: float, now: float) -> None:
        """Let a host make its next frame, if it has something to say."""
        if self.high or not tick % self._slots(host):
            before = self.samples
            super().sample(host, tick, wall, monotonic, now)
            self._made[self._scenario.kind(host.index)] += self.samples - before

    def turn_load(self, order: dict[str, Any]) -> None:
        """Raise or lower the load."""
        self.high = order["high"]

    def report(self) -> dict[str, Any]:
        """Per class the samples made and shed; over all hosts the samples dropped."""
        shed = dict.fromkeys(CLASSES, 0)
        dropped = 0
        for host in self.hosts:
            account = host.writer.account()
            shed[self._scenario.kind(host.index)] += account["shed_samples"]
            dropped += account["dropped_samples"]
        return {"made": dict(self._made), "shed": shed, "dropped": dropped}

    def _slots(self, host: EmulatedHost) -> int:
        return TIMES if self._scenario.kind(host.index) == TALKATIVE else 1


def _host(scenario: Scenario, index: int, slow: Common, fast: Common, seeds: list[Address]) -> EmulatedHost:
    common = fast if scenario.kind(index) == TALKATIVE else slow
    return EmulatedHost(common, index, seeds, _HELD, scenario.position_interval, shed_after=scenario.shed_after)


def main() -> None:
    """See the module."""
    orders = Orders()
    task = orders.wait()
    fleet = TalkingFleet(
        Scenario(**task["scenario"]), [parse_address(text) for text in task["shards"]], orders.fileno()
    )
    say({"ready": True})
    actions = {"mark": lambda _: say(fleet.report()), "load": fleet.turn_load, "stop": lambda _: True}
    Paced(fleet, 1.0, fleet.turns()).run(Director(fleet, orders, actions, _LOOK_SECONDS))
    for host in fleet.hosts:
        host.writer.finish(0.0)  # in order: an end frame tells the filter of what was shed before it
    drained = drain(fleet, _DRAIN_SECONDS)
    say(fleet.report() | {"drained": drained})
    fleet.close()


if __name__ == "__main__":
    main()
