"""Client process whose readings are timed, as a scheduler's would be.

python -m experiments.reading.client     (orders and answers as JSON lines, see ``main``)
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from acquisition.config.decisions import Decisions
from acquisition.link.cluster import Batch, Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address, parse_address
from acquisition.snapshot import Snapshot, SnapshotReader, collector
from acquisition.wire import keys
from acquisition.wire.records.planes import OWN
from experiments.harness.quantiles import percentiles
from experiments.processes.control import Orders, say
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import method_of
from filters.decisions.verdict import Outcome
from filters.judging.judge import TickJudge, inputs_of
from filters.judging.observe import observe

SNAPSHOT = "snapshot"
HOT_LIST = "hot"
QUESTIONS = (SNAPSHOT, HOT_LIST)

NEW_TICK, UNCHANGED, CHANGED, REFERENCE = "new_tick", "unchanged", "changed", "reference"
IDS = "ids"  #: the reference of an unchanged reading: a pipelined GET of the commit ids
LISTED, DESCRIBED = "listed", "described"  #: a hot list, and the same with all data of every host
AHEAD = "ahead"  #: nothing was committed since the previous reading, which was a while ago

_AT_ONCE = 5  #: readings after one of a new tick: with one each, p99 would be the longest of a minute
_LOOKED_AT = 10  #: number of hot hosts for which a scheduler reads the reasons
_DESCRIBED_EVERY = 5  #: lists
_PLANES = tuple(plane.name for plane in OWN)


def main() -> None:
    """First order ``{shards, question, seed}``, answered with ``{ready}``. ``{do: "read", seconds, pause, now}`` reads
    for ``seconds``, at random moments ``pause`` seconds apart on average, and answers with the figures; with ``now``
    the reader's clock is fixed there. ``{do: "compare"}`` is answered with whether the hot list equals the judgement of
    every host."""
    orders = Orders()
    task = orders.wait()
    clock = _Clock()
    cluster = Counted([parse_address(text) for text in task["shards"]], timeout=10.0)
    with SnapshotReader(cluster, clock=clock) as reader:
        asked: SnapshotQuestion | HotQuestion
        asked = SnapshotQuestion(reader, cluster) if task["question"] == SNAPSHOT else _hot_question(reader)
        say({"ready": True})
        while True:
            order = orders.wait()
            clock.stands = order.get("now")
            if order["do"] == "read":
                say(read(asked, order, task["seed"]))
            else:
                with SnapshotReader(cluster.another(), clock=clock) as other:
                    say({"equal": _equal(other)})


class _Clock:
    def __init__(self) -> None:
        self.stands: float | None = None

    def __call__(self) -> float:
        return time.time() if self.stands is None else self.stands


class Counted(Cluster):
    """A cluster that counts the commands of each thread, to distinguish an unchanged reading from one that read
    something."""

    def __init__(self, seeds: list[Address], timeout: float) -> None:
        super().__init__(seeds, timeout=timeout)
        self._asked = Counter[int]()

    @property
    def commands(self) -> int:
        """Number of commands sent by this thread."""
        return self._asked[threading.get_ident()]

    def ask(self, batch: Batch) -> list[Any]:
        """As Cluster.ask."""
        self._asked[threading.get_ident()] += len(batch.commands)
        return super().ask(batch)


def read(asked: SnapshotQuestion | HotQuestion, order: dict[str, Any], seed: int) -> dict[str, Any]:
    """Read, and answer with the figures."""
    collector.collect_rarely()  # as docs/reading.md advises
    chance = random.Random(seed)
    count, last = 0, dict[str, int]()
    end = time.monotonic() + float(order["seconds"])
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.0, 2.0 * float(order["pause"])))
        last = asked()
        count += 1
    return {"readings": count, **asked.figures(), **last}


class SnapshotQuestion:
    """All data. In a reading with a new tick every plane of every block is touched as an array; readings follow at
    once, which mostly find nothing new, and the references: after each of them a pipelined GET of the commit ids, and
    then one of the same records."""

    def __init__(self, reader: SnapshotReader, cluster: Counted) -> None:
        self._reader, self._cluster = reader, cluster
        self._bare = cluster.another()
        self._layout = read_layout(self._bare)
        self._ids = Batch([(keys.commit(tag), ("GET", keys.commit(tag))) for tag in self._layout.tags])
        self._bare.prepare(self._ids)
        self._tick = 0
        self._times: dict[str, list[tuple[float, float]]] = {}
        self._ages: list[float] = []

    def __call__(self) -> dict[str, int]:
        """One reading, with the readings and references after it."""
        begun, before = _now(), self._cluster.commands
        snapshot = self._reader.coherent()
        asked = self._cluster.commands - before
        tick, late, samples, oldest = _touched(snapshot)
        self._ages.append(oldest * 1000.0)
        if tick <= self._tick:
            self._note(AHEAD if asked == self._layout.partitions else CHANGED, begun)
        else:
            self._note(NEW_TICK, begun)
            self._tick = tick
            for _ in range(_AT_ONCE):
                self._again()
            batch = self._reference(snapshot)
            begun = _now()
            self._bare.ask(batch)
            self._note(REFERENCE, begun)
        return {"blocks": len(snapshot.blocks), "late": late, "samples": samples}

    def _again(self) -> None:
        """An immediate reading, and its reference."""
        begun, before = _now(), self._cluster.commands
        self._reader.coherent()
        asked = self._cluster.commands - before
        self._note(UNCHANGED if asked == self._layout.partitions else CHANGED, begun)
        begun = _now()
        self._bare.ask(self._ids)
        self._note(IDS, begun)

    def figures(self) -> dict[str, Any]:
        """Milliseconds by kind of reading; ``milliseconds`` are those of new ticks, ``age_milliseconds`` the age of the
        oldest values of each snapshot."""
        times, self._times = self._times, {}
        ages, self._ages = self._ages, []
        wall = {kind: percentiles([each for each, _ in pairs]) for kind, pairs in times.items()}
        cpu = percentiles([each for _, each in times.get(NEW_TICK, [])])
        every = percentiles([each for pairs in times.values() for each, _ in pairs])  # if the clock is fixed
        found: dict[str, Any] = {
            "milliseconds": wall.pop(NEW_TICK, every),
            "cpu_milliseconds": cpu,
            "age_milliseconds": percentiles(ages),
        }
        for kind, part in wall.items():
            found[f"{kind}_readings"] = len(times[kind])
            found[f"{kind}_milliseconds"] = part
        if REFERENCE in wall:
            found["ratio"] = {
                part: round(found["milliseconds"][part] / wall[REFERENCE][part], 2) for part in ("p50", "p99")
            }
        return found

    def _note(self, kind: str, begun: tuple[float, float]) -> None:
        wall, cpu = ((end - start) * 1000.0 for start, end in zip(begun, _now(), strict=True))
        self._times.setdefault(kind, []).append((wall, cpu))

    def _reference(self, snapshot: Snapshot) -> Batch:
        layout = self._layout
        names = [
            keys.smoothed(layout.tag_of(block.host_id), block.host_id, block.set_id, block.tick % layout.keep_ticks)
            for block in snapshot.blocks
        ]
        batch = Batch([(name, ("GET", name)) for name in names])
        self._bare.prepare(batch)
        return batch


def _now() -> tuple[float, float]:
    """Wall clock and CPU time of this thread, seconds."""
    return time.perf_counter(), time.thread_time()


def _touched(snapshot: Snapshot) -> tuple[int, int, int, float]:
    """The newest tick, the numbers of late blocks and of samples, and the age of the oldest in seconds; every plane is
    touched."""
    tick = late = samples = 0
    oldest = 0.0
    for block in snapshot.blocks:
        if not block.has_values:
            late += 1
            continue
        tick = max(tick, block.tick)
        oldest = max(oldest, block.age_seconds)
        samples += block.plane("mean").size
        for name in _PLANES:
            block.plane(name)
    return tick, late, samples, oldest


class HotQuestion:
    """The hot hosts, with the reasons of the first ones; now and then a list is followed by all data of every host."""

    def __init__(self, listed: Callable[[], Decided]) -> None:
        self._listed = listed
        self._count = 0
        self._times: dict[str, list[tuple[float, float]]] = {}

    def __call__(self) -> dict[str, int]:
        """One list."""
        wall, cpu = time.perf_counter(), time.process_time()
        decided = self._listed()
        hot, abstained = (decided.heat.having(outcome) for outcome in (Outcome.HOT, Outcome.ABSTAINED))
        for host in hot[:_LOOKED_AT]:
            assert decided.heat.verdicts[host].reason
        self._note(LISTED, wall, cpu)
        self._count += 1
        if self._count % _DESCRIBED_EVERY == 0:
            assert all(verdict.reason for verdict in decided.heat.verdicts.values())
            assert all(host.name for host in decided.picture.hosts)
            self._note(DESCRIBED, wall, cpu)
        return {"hosts": len(decided.picture.hosts), "hot": len(hot), "abstained": len(abstained)}

    def figures(self) -> dict[str, Any]:
        """Milliseconds; ``milliseconds`` are those of lists, CPU time is that of the whole process."""
        times, self._times = self._times, {}
        wall, cpu = (percentiles([pair[at] for pair in times[LISTED]]) for at in range(2))
        described = percentiles([each for each, _ in times.get(DESCRIBED, [])] or [0.0])
        return {"milliseconds": wall, "cpu_milliseconds": cpu, "described_milliseconds": described}

    def _note(self, kind: str, wall: float, cpu: float) -> None:
        pair = (time.perf_counter() - wall) * 1000.0, (time.process_time() - cpu) * 1000.0
        self._times.setdefault(kind, []).append(pair)


def _hot_question(reader: SnapshotReader) -> HotQuestion:
    judge = TickJudge(Decisions(), method_of(Decisions()))
    return HotQuestion(lambda: judge.newest(reader))


def _equal(reader: SnapshotReader) -> bool:
    """Whether the hot list equals the judgement of every host."""
    method = method_of(Decisions())
    snapshot = reader.coherent()
    every = decide(observe(snapshot, Decisions(), inputs_of(reader, snapshot, method.rule)), method, None)
    return _outcomes(every) == _outcomes(TickJudge(Decisions(), method).newest(reader))


def _outcomes(decided: Decided) -> dict[str, str]:
    outcomes = {host: verdict.outcome for host, verdict in decided.heat.verdicts.items()}
    return {host: outcome for host, outcome in outcomes.items() if outcome in (Outcome.HOT, Outcome.ABSTAINED)}


if __name__ == "__main__":
    main()
