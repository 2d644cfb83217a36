"""Failover generator process, so that several cores make handshakes.

It has a share of the emulated hosts.

    python -m experiments.failover.generator     (orders and answers as JSON lines)

The first order is the task. When its hosts exist the program reports that; they connect and sample from the first
``watch`` on, which is answered once each of some hosts (None: all) has had a frame accepted that it made since.
``errors`` is answered with the errors that ended connections so far, by kind, and ``settle``, after which no host
samples, with the number of samples and the times of all frames once the filter has applied everything. ``failed`` is
the answer after a timeout.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from acquisition.errors import ShardpulseError
from acquisition.link.resp import parse_address
from acquisition.link.trust.credentials import Credentials
from acquisition.outbox.frames.window import SendWindow
from experiments.emulation.director import keep_what_lives, raise_descriptor_limit
from experiments.emulation.workload import Workload
from experiments.failover.load import Load
from experiments.processes.control import Orders, say

_TURN_SECONDS = 0.05
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def main() -> None:
    """Run until the parent is gone."""
    orders = Orders()
    task = orders.wait()
    raise_descriptor_limit()
    load = _load(task, orders.fileno())
    keep_what_lives()
    say({"ready": True})
    answers: dict[str, Answer] = {
        "watch": partial(_watch, load),
        "errors": lambda _: {"errors": errors(load)},
        "settle": partial(_settle, load),
    }
    while (order := orders.wait())["do"] != "watch":
        say(_answer(answers, order))
    load.begin()
    say(_answer(answers, order))
    while True:
        if load.turn(_TURN_SECONDS):
            for order in orders.read():
                say(_answer(answers, order))


def _load(task: dict[str, Any], other: int) -> Load:
    """The hosts of this process: every ``count``-th of the workload's, from ``number`` on."""
    workload = Workload(**task["workload"])
    number, count = task["share"]
    return Load(
        workload,
        [parse_address(text) for text in task["shards"]],
        range(number, workload.hosts, count),
        Credentials(*task["credentials"]),
        position_interval=task["position_interval"],
        other=other,
    )


def _answer(answers: Mapping[str, Answer], order: dict[str, Any]) -> dict[str, Any]:
    try:
        return answers[order["do"]](order)
    except ShardpulseError as error:
        return {"failed": str(error)}


def _watch(load: Load, order: dict[str, Any]) -> dict[str, Any]:
    """The monotonic time, which all processes share, when the last of the hosts had a new frame accepted."""
    hosts = load.hosts
    if order["hosts"] is not None:
        chosen = frozenset(order["hosts"])
        hosts = [host for host in hosts if host.index in chosen]
    goals = [(host.window, host.window.last + 1) for host in hosts]
    load.run_until(lambda: is_reached(goals), order["seconds"], order["what"])
    return {"at": time.monotonic()}


def is_reached(goals: list[tuple[SendWindow, int]]) -> bool:
    """Whether all windows have been acknowledged up to their goals; acknowledged ones are removed."""
    while goals and goals[-1][0].acked >= goals[-1][1]:
        goals.pop()
    return not goals


def errors(load: Load) -> dict[str, int]:
    """Errors that have ended connections of hosts so far, by kind."""
    found: Counter[str] = Counter()
    for host in load.hosts:
        found.update(host.writer.account()["errors"])
    return dict(found)


def _settle(load: Load, order: dict[str, Any]) -> dict[str, Any]:
    load.settle(order["seconds"])
    return {"samples": load.samples, "logs": load.logs()}


if __name__ == "__main__":
    main()
