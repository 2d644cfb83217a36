"""Emulated hosts of the onset run: product writers at hashed phases.

Each sends its host's own figures.

python -m experiments.onset.hosts     (orders and answers as JSON lines, see ``main``)
"""

from __future__ import annotations

import struct
from typing import Any

from acquisition.link.resp import Address, parse_address
from acquisition.link.trust.credentials import Credentials
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.wire.frame import Samples
from experiments.emulation.director import Director, keep_what_lives
from experiments.emulation.fleet import Fleet, introduce
from experiments.emulation.host_figures import SCHEMA, SET_ID, figures_at, table_of
from experiments.emulation.membership import entity
from experiments.emulation.pacing import Paced
from experiments.emulation.workload import host_name, host_number
from experiments.onset.steps import Load
from experiments.processes.control import Orders, say

_RING_BYTES, _HELD_SECONDS = 1 << 16, 60.0
_LOOK_SECONDS = 0.02  #: between looks for writers that are due


class SteppedHost:
    """One of them (``experiments.emulation.fleet.Acknowledged``); ``load`` is the load it measures."""

    def __init__(self, index: int, seeds: list[Address], interval: float, load: Load) -> None:
        self.index, self.number, self.load = index, host_number(index), load
        self.made = 0
        self.due = 0.0
        self.registered = (-1, 0, 0)
        self._interval = interval
        self._ids = entity(index, 0).id.to_bytes(8, "little")
        self._last: float | None = None
        self._outbox = Outbox(None, _RING_BYTES, _HELD_SECONDS)
        self.writer = Writer(self.number, host_name(index), seeds, Credentials(), self._outbox)

    @property
    def problem(self) -> str:
        """Problem that keeps frames from being sent."""
        return self.writer.problem

    def waiting(self) -> int:
        """Frames not known to be applied."""
        window = self._outbox.windows.get(SET_ID)
        return window.last - window.applied if window is not None else 0

    def early(self) -> float:
        """Always 0: it samples when due."""
        return 0.0

    def offer_table(self, tick: int, wall: float, monotonic: float) -> None:
        """Offer the name of its one row."""
        self.writer.offer_table(table_of(self.index, self._interval), tick, wall, monotonic)

    def sample(self, tick: int, wall: float, monotonic: float) -> int:
        """Offer the mean since the last sample."""
        if self.writer.wants_table(SET_ID):
            self.offer_table(tick, wall, monotonic)
        start, self._last = self._last or wall - self._interval, wall
        values = figures_at(self.load.sample(start, wall))
        self.writer.offer(
            Samples(
                SET_ID, SCHEMA, 1, len(values), self._interval, tick, wall, monotonic, self._ids,
                struct.pack(f"<{len(values)}f", *values), b"",
            )
        )  # fmt: skip
        self.made += 1
        return len(values)


def main() -> None:
    """The first order ``{shards, hosts, interval, seed}`` is answered with ``{ready}`` once the filter has all names;
    ``{do: "step", onsets, hold}`` sets when the load of each host will rise; ``{do: "stop"}`` is answered with counts.
    """
    orders = Orders()
    task = orders.wait()
    seeds = [parse_address(text) for text in task["shards"]]
    loads = [Load(task["seed"], index) for index in range(task["hosts"])]
    hosts = [SteppedHost(index, seeds, task["interval"], load) for index, load in enumerate(loads)]
    fleet = Fleet(hosts, orders.fileno())
    introduce(fleet, task["interval"])
    keep_what_lives()
    say({"ready": True})

    def step(order: dict[str, Any]) -> None:
        for load, onsets in zip(loads, order["onsets"], strict=True):
            load.rise(onsets, order["hold"])

    actions = {"step": step, "stop": lambda _: True}
    Paced(fleet, task["interval"]).run(Director(fleet, orders, actions, _LOOK_SECONDS))
    say(fleet.counts()._asdict())
    fleet.close()


if __name__ == "__main__":
    main()
