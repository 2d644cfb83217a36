"""The hosts of the overload experiment, as a child program: some talk more while they are told so.

    python -m experiments.overload.generator     (orders and answers as JSON lines)

First order: the scenario and the shards; then ``load`` (``high`` true or false), ``mark`` (answered with what
each class has made and shed so far) and ``stop`` (answered after everything was drained).
"""

from __future__ import annotations

import heapq
import time
from typing import Any

from acquisition.link.resp import parse_address
from acquisition.model.ticks import tick_of
from experiments.emulation.emulated_host import Common, EmulatedHost
from experiments.emulation.fleet import Fleet
from experiments.overload.scenario import CLASSES, TALKATIVE, TIMES, Scenario
from experiments.processes.control import Orders, say
from probes.schedule import phase_of

_HELD_FRAMES = 8192
_HELD_SECONDS = 600.0
_WAIT = 0.02
_DRAIN_SECONDS = 60.0


class Generator:
    """All hosts and when each is due; a talkative host has ten turns per second and uses one while the load is low."""

    def __init__(self, scenario: Scenario, shards: list[str], orders: Orders) -> None:
        self._scenario = scenario
        self._orders = orders
        self._high = False
        seeds = [parse_address(text) for text in shards]
        slow = Common(scenario.workload)
        fast = Common(scenario.workload._replace(interval=1.0 / TIMES))
        self._intervals = [slow.workload.interval] * scenario.quiet + [fast.workload.interval] * scenario.talkative
        self._fleet = Fleet(
            [
                EmulatedHost(
                    fast if scenario.kind(index) == TALKATIVE else slow,
                    index,
                    seeds,
                    _HELD_FRAMES,
                    _HELD_SECONDS,
                    scenario.position_interval,
                    False,
                    scenario.shed_after,
                )
                for index in range(scenario.hosts)
            ],
            orders.fileno(),
        )
        self._made = dict.fromkeys(CLASSES, 0)

    def run(self) -> None:
        """Sample until told to stop; then drain and report."""
        turns = [self._first(host) for host in self._fleet.hosts]
        heapq.heapify(turns)
        served = 0.0
        while True:
            now = time.time()
            while turns[0][0] <= now:
                at, index = turns[0]
                heapq.heapreplace(turns, (at + self._intervals[index], index))
                self._sample(index, at)
            if now >= served + _WAIT:
                served = now
                self._serve_due()
            if self._fleet.attend(min(_WAIT, max(0.0, turns[0][0] - now))) and self._obey():
                break
        drained = self._drain()
        say(self._counts() | {"drained": drained})
        self._fleet.close()

    def _first(self, host: EmulatedHost) -> tuple[float, int]:
        interval = self._intervals[host.index]
        return (tick_of(time.time(), 1.0) + 1) * 1.0 + phase_of(host.number, interval), host.index

    def _sample(self, index: int, wall: float) -> None:
        interval = self._intervals[index]
        tick = tick_of(wall, interval)
        if not self._high and tick % round(1.0 / interval):
            return
        host, now = self._fleet.hosts[index], time.monotonic()
        before = self._fleet.samples
        self._fleet.sample(host, tick, wall, now, now)
        self._made[self._scenario.kind(index)] += self._fleet.samples - before

    def _serve_due(self) -> None:
        now = time.monotonic()
        for host in self._fleet.hosts:
            if now >= host.due:
                self._fleet.serve(host, now)

    def _obey(self) -> bool:
        for order in self._orders.read():
            if order["do"] == "mark":
                say(self._counts())
            elif order["do"] == "load":
                self._high = order["high"]
            elif order["do"] == "stop":
                return True
        return False

    def _counts(self) -> dict[str, Any]:
        """Per class the samples made and shed; over all hosts the frames made and the shed and dropped samples."""
        shed = dict.fromkeys(CLASSES, 0)
        dropped = 0
        for host in self._fleet.hosts:
            account = host.writer.account()
            shed[self._scenario.kind(host.index)] += account["shed_samples"]
            dropped += account["dropped_samples"]
        return {"made": dict(self._made), "shed": shed, "dropped": dropped}

    def _drain(self) -> bool:
        """End in order: an end frame tells the filter of what was shed before it."""
        for host in self._fleet.hosts:
            host.writer.finish(0.0)
        deadline = time.monotonic() + _DRAIN_SECONDS
        while any(host.waiting() for host in self._fleet.hosts):
            if time.monotonic() > deadline:
                return False
            self._serve_due()
            self._fleet.attend(_WAIT)
        return True


def main() -> None:
    """See the module."""
    orders = Orders()
    task = orders.wait()
    generator = Generator(Scenario(**task["scenario"]), task["shards"], orders)
    say({"ready": True})
    generator.run()


if __name__ == "__main__":
    main()
