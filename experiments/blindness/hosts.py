"""Emulated hosts that send what rules judge: a share of them, as a program that ``experiments.blindness`` starts.

    python -m experiments.blindness.hosts     (orders and answers as JSON lines on stdin and stdout)

The first order is the task ``{shards, hosts, first, last}``, answered with ``{ready}``; then ``cut``, ``heal``, and
``stop``: the hosts say goodbye in order, which is answered with ``{stopped}``.
"""

from __future__ import annotations

import struct
from typing import Any

from acquisition.link.resp import parse_address
from acquisition.model.metric import resource_set_id, schema_hash
from experiments.emulation.director import Action, Director
from experiments.emulation.emulated_host import Common, EmulatedHost, Held
from experiments.emulation.fleet import introduce
from experiments.emulation.generator import BreakableFleet
from experiments.emulation.pacing import Paced
from experiments.emulation.values import Strip
from experiments.emulation.workload import Workload
from experiments.processes.control import Orders, say
from probes.metrics import HOST

INTERVAL = 1.0
_HELD = Held(frames=240, seconds=240.0)
_POSITION_SECONDS = 2.0
_LOOK_SECONDS = 0.02
_GOODBYE_SECONDS = 5.0
_MEMORY = float(64 << 30)
_NAMES = [metric.name for metric in HOST.metrics]


class _Calm(Strip):
    """Figures of hosts that are busy by a fifth to a third."""

    def cut(self, row: int, entities: int) -> tuple[bytes, bytes]:
        """One row, whose CPU time is another in every frame."""
        busy = 0.2 + 0.1 * (row % 97) / 97
        known = {
            "cpu_idle_ratio": 0.99 - busy, "cpu_iowait_ratio": 0.01, "cpu_user_ratio": busy, "cpu_count": 32.0,
            "memory_total_bytes": _MEMORY, "memory_available_bytes": _MEMORY * (1.0 - busy),
        }  # fmt: skip
        return entities * struct.pack(f"<{len(_NAMES)}f", *(known.get(name, busy) for name in _NAMES)), b""


class _Common(Common):
    """What the hosts share: one row each, with the metrics of hosts themselves."""

    def __init__(self, hosts: int) -> None:
        super().__init__(Workload(hosts, 1, len(HOST.metrics), INTERVAL, 1, 0.0, 0.0))
        self.strip = _Calm(self.workload)
        self.set, self.set_id, self.schema = HOST, resource_set_id(HOST.name), schema_hash(HOST.metrics)


def main() -> None:
    """Run until stopped; see the module."""
    orders = Orders()
    task = orders.wait()
    common, seeds = _Common(task["hosts"]), [parse_address(text) for text in task["shards"]]
    hosts = [
        EmulatedHost(common, index, seeds, _HELD, _POSITION_SECONDS) for index in range(task["first"], task["last"])
    ]
    fleet = BreakableFleet(hosts, orders.fileno())
    introduce(fleet, INTERVAL)
    say({"ready": True})
    actions: dict[str, Action] = {
        "cut": lambda _: fleet.break_links(task["last"]), "heal": lambda _: fleet.heal(), "stop": lambda _: True,
    }  # fmt: skip
    Paced(fleet, INTERVAL).run(Director(fleet, orders, actions, _LOOK_SECONDS))
    _say_goodbye(hosts)
    fleet.close()
    say({"stopped": True})


def _say_goodbye(hosts: list[EmulatedHost]) -> None:
    for host in hosts:
        writer: Any = host.writer
        writer.finish(_GOODBYE_SECONDS)


if __name__ == "__main__":
    main()
