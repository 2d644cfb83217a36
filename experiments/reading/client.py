"""The client whose readings ``experiments.reading`` times: a process of its own, as a scheduler is one.

python -m experiments.reading.client     (orders and answers as JSON lines, see ``main``)
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from acquisition.config.decisions import Decisions
from acquisition.link.cluster import Cluster
from acquisition.link.resp import parse_address
from acquisition.snapshot import SnapshotReader
from experiments.harness.quantiles import percentiles
from experiments.processes.control import Orders, say
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import method_of
from filters.decisions.verdict import Outcome
from filters.judging.hot_list import hot_list
from filters.judging.observe import observe
from filters.judging.sources import inputs_of

SNAPSHOT = "snapshot"
HOT_LIST = "hot"
QUESTIONS = (SNAPSHOT, HOT_LIST)

#: One reading: what it says, in few numbers.
Ask = Callable[[], dict[str, int]]


def main() -> None:
    """First order ``{shards, question, seed}``, answered with ``{ready}``. ``{do: "read", seconds, pause, now}`` reads
    for so long, at random moments ``pause`` seconds apart on average, and answers with the figures; with ``now`` the
    reader's clock stands still there. ``{do: "compare"}`` says whether the hot list is that of every host judged."""
    orders = Orders()
    task = orders.wait()
    clock = _Clock()
    cluster = Cluster([parse_address(text) for text in task["shards"]], timeout=10.0)
    with SnapshotReader(cluster, clock=clock) as reader:
        asked = _snapshot(reader) if task["question"] == SNAPSHOT else _hot(reader)
        say({"ready": True})
        while True:
            order = orders.wait()
            clock.stands = order.get("now")
            say(read(asked, order, task["seed"]) if order["do"] == "read" else {"equal": _equal(reader)})


class _Clock:
    def __init__(self) -> None:
        self.stands: float | None = None

    def __call__(self) -> float:
        return time.time() if self.stands is None else self.stands


def read(asked: Ask, order: dict[str, Any], seed: int) -> dict[str, Any]:
    """Milliseconds of wall-clock and of CPU time of each reading."""
    chance = random.Random(seed)
    wall, cpu, last = [], [], {}
    end = time.monotonic() + float(order["seconds"])
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.0, 2.0 * float(order["pause"])))
        used, began = time.process_time(), time.perf_counter()
        last = asked()
        wall.append((time.perf_counter() - began) * 1000.0)
        cpu.append((time.process_time() - used) * 1000.0)
    return {"readings": len(wall), "milliseconds": percentiles(wall), "cpu_milliseconds": percentiles(cpu), **last}


def _snapshot(reader: SnapshotReader) -> Ask:
    """Everything that there is: every value of every row, decoded."""

    def ask() -> dict[str, int]:
        snapshot = reader.coherent()
        samples = sum(block.plane("mean").size for block in snapshot.blocks if block.has_values)
        return {"blocks": len(snapshot.blocks), "late": len(snapshot.late), "samples": samples}

    return ask


def _hot(reader: SnapshotReader) -> Ask:
    method = method_of(Decisions())
    hot: frozenset[str] = frozenset()

    def ask() -> dict[str, int]:
        nonlocal hot
        decided = hot_list(reader, Decisions(), method, hot)
        hot = decided.heat.hot
        verdicts = [verdict.outcome for verdict in decided.heat.verdicts.values()]
        return {
            "hosts": len(decided.picture.hosts) + decided.picture.others,
            "hot": verdicts.count(Outcome.HOT),
            "abstained": verdicts.count(Outcome.ABSTAINED),
        }

    return ask


def _equal(reader: SnapshotReader) -> bool:
    """Whether the hot list is what judging every host says."""
    method = method_of(Decisions())
    snapshot = reader.coherent()
    every = decide(observe(snapshot, Decisions(), inputs_of(reader, snapshot, method.rule)), method, None)
    listed = hot_list(reader, Decisions(), method)
    return _outcomes(every) == _outcomes(listed)


def _outcomes(decided: Decided) -> dict[str, str]:
    outcomes = {host: verdict.outcome for host, verdict in decided.heat.verdicts.items()}
    return {host: outcome for host, outcome in outcomes.items() if outcome in (Outcome.HOT, Outcome.ABSTAINED)}


if __name__ == "__main__":
    main()
