"""Updater of all hosts' trees, ten times a second, as a program.

python -m experiments.beside.trees     (orders and answers as JSON lines, see ``main``)
"""

from __future__ import annotations

import select
import time
from pathlib import Path
from typing import Any

from experiments.beside.script import Plan, Stage
from experiments.beside.tree import HostTree
from experiments.processes.control import Orders, say

TICK = 0.1  #: seconds between two versions of a tree


class Trees:
    """All hosts; VM number n is on host number n at first."""

    def __init__(self, root: Path, hosts: int, seed: int) -> None:
        self._stage = Stage(hosts)
        self._trees = [HostTree(root / str(number), seed + number) for number in range(hosts)]
        for number, tree in enumerate(self._trees):
            tree.begin(f"vm-{number}")
        self._at = time.time()
        self._monotonic = time.monotonic()

    def order(self, order: dict[str, Any]) -> None:
        """One of ``plan``, ``incoming``, ``blind``, ``jump``, ``clock``."""
        do = order["do"]
        tree = self._trees[order.get("host", 0)]
        if do == "plan":
            self._stage.take(Plan.of(order["plan"]))
        elif do == "incoming":
            tree.begin(f"vm-{order['vm']}", incoming=True)
        elif do == "blind":
            tree.blind(order["on"])
        elif do == "jump":
            tree.jump(order["seconds"])
        elif do == "clock":
            tree.ahead = order["seconds"]

    def advance(self) -> None:
        """Let the time since the last call pass."""
        now, monotonic = time.time(), time.monotonic()
        for move in self._stage.due(now):
            self._trees[move.source].end(f"vm-{move.vm}")
        for number, tree in enumerate(self._trees):
            tree.advance(monotonic - self._monotonic, self._stage.cores_on(number, self._at, now), now)
        self._at, self._monotonic = now, monotonic

    def close(self) -> None:
        """Close all files."""
        for tree in self._trees:
            tree.close()


def main() -> None:
    """The first order ``{root, hosts, seed}`` is answered with ``{ready}`` once all trees exist."""
    orders = Orders()
    task = orders.wait()
    trees = Trees(Path(task["root"]), task["hosts"], task["seed"])
    trees.advance()
    say({"ready": True})
    due = time.monotonic()
    while True:
        due = max(due + TICK, time.monotonic())
        while (left := due - time.monotonic()) > 0:
            if select.select([orders], [], [], left)[0]:
                for order in orders.read():
                    trees.order(order)
        trees.advance()


if __name__ == "__main__":
    main()
