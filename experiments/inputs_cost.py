"""Cost of decision inputs: CPU of the filter, memory of the shards, one run.

    python -m experiments.inputs_cost                        # 100 hosts x 101 entities x 15 metrics
    python -m experiments.inputs_cost --together 10          # only with frames that come in tens

Three filter workers, each with a shard of its own, take the same frames in turn, tick by tick, so that whatever else
the machine does falls on all: one as shipped, one that keeps order statistics of everything (full), and one without
decision inputs (off). Frames come in hundreds, in tens and one by one, as they do from many hosts. CPU time is that of
this process inside the workers' turns: receiving, decoding, smoothing, encoding and sending, the shards' own not
included. 1% of the samples are invalid, so that windows have holes.

Memory is what the filter's keys take in the shards (MEMORY USAGE) over that of off, per series with decision inputs: of
VMs (one column of every entity), and of hosts alone, which have three columns, once every ring has been filled.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model import codes as validity
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.shards.servers.launch import start_shards
from acquisition.wire import frame as wire
from acquisition.wire import keys, table
from acquisition.wire.frame import Frame
from experiments.emulation.workload import Workload, host_number, resource_set
from experiments.harness import outcome
from experiments.processes.program import program
from filters.runtime.memory import keep_freed_memory
from filters.worker.inputs.plan import InputsSettings
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from probes.metrics import RESOURCE_SETS

_POOL = 16
_INVALID = 0.01
_WARM_UP = 35  #: ticks until windows are full
_RING = 125  #: ticks until rings are full
_RETENTION = 5.0  #: seconds for which raw frames are kept: there is little time between two ticks here
SIDES = {
    "shipped": InputsSettings(),
    "full": InputsSettings(order_statistics=("*",)),
    "off": None,
}


class Sent(NamedTuple):
    """An entry of a raw stream: its key and the frame."""

    key: str
    data: bytes


class Frames:
    """Makes the frames of every tick of one resource set per host; all values change from tick to tick."""

    def __init__(self, workload: Workload, tags: tuple[str, ...], name: str, metrics: Sequence[Metric]) -> None:
        self._workload = workload
        self._tags = tags
        self._name = name
        self._metrics = tuple(metrics)
        self._schema, self._set = schema_hash(self._metrics), resource_set_id(name)
        self._ids = np.arange(1, workload.entities + 1, dtype="<u8").tobytes()
        rng = np.random.default_rng(workload.seed)
        shape = (workload.entities, workload.metrics)
        self._pool = []
        for _ in range(_POOL):
            marks = np.where(rng.random(shape) < workload.invalid, validity.RANGE, 0).astype(np.uint8)
            self._pool.append((rng.random(shape, np.float32).tobytes(), marks.tobytes()))

    def tick(self, number: int) -> list[Sent]:
        """The frames of tick 1, 2, 3 …; those of tick 0 are the tables."""
        return [self._frame(host, number) for host in range(self._workload.hosts)]

    def _frame(self, index: int, number: int) -> Sent:
        workload, host = self._workload, host_number(index)
        at = 1000.0 + number
        if number == 0:
            entities = tuple(table.Entity(i + 1, "vm", str(i), "1", f"vm{i}") for i in range(workload.entities))
            payload = table.encode(
                table.Table(f"host{index}", self._name, 1.0, "procfs", True, self._metrics, entities)
            )
            made = Frame(wire.KIND_TABLE, 0, host, self._set, 0, 0, 1.0, 1, 1, 1, 0, 0, 0.0, 0.0, payload=payload)
        else:
            values, marks = self._pool[(index + number * 7) % _POOL]
            made = Frame(
                wire.KIND_SAMPLES, self._schema, host, self._set, workload.entities, workload.metrics, 1.0, 1,
                number + 1, 1, (number - 1) * workload.samples_per_frame, int(at), at + 0.5, at, self._ids, values,
                marks,
            )  # fmt: skip
        return Sent(keys.raw(self._tags[keys.partition_of(host, len(self._tags))]), wire.encode(made))


def frames_of(name: str, hosts: int, entities: int) -> Frames:
    """Frames with a probe's metrics of a resource set."""
    metrics = RESOURCE_SETS[name].metrics
    workload = Workload(hosts, entities, len(metrics), invalid=_INVALID)
    return Frames(workload, keys.tags(keys.DEFAULT_PARTITIONS), name, metrics)


class Side:
    """A worker with its own shard, and its CPU seconds."""

    def __init__(self, cluster: Cluster, inputs: InputsSettings | None) -> None:
        self.cluster = cluster
        settings = FilterSettings(linger_seconds=0.0, retention_seconds=_RETENTION, inputs=inputs)
        self.worker = lone_worker(cluster, read_layout(cluster), settings)
        self.cpu = 0.0
        self._frames = 0

    def take(self, sent: list[Sent]) -> None:
        """Add entries, and run turns of the worker until it has smoothed them."""
        self.cluster.gather([(key, ("XADD", key, "*", keys.ENTRY_FIELD, data)) for key, data in sent])
        self._frames += sum(1 for _, data in sent if data[9] == wire.KIND_SAMPLES)
        deadline = time.monotonic() + 30.0
        began = time.process_time()
        while self.worker.counters["frames"] < self._frames:
            self.worker.turn(0.02)
            if time.monotonic() > deadline:
                raise TimeoutError("the filter does not keep up")
        self.cpu += time.process_time() - began

    def records_memory(self) -> int:
        """Bytes of the filter's keys in the shard, by MEMORY USAGE."""
        found = 0
        for address in self.cluster.masters():
            with closing(self.cluster.connect(address)) as connection:
                for pattern in ("smoothed:*", "recent:*"):
                    names = connection.call("KEYS", pattern)
                    found += sum(connection.pipeline([("MEMORY", "USAGE", name) for name in names]))
        return found


class Bench:
    """All sides, each fed alike."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self.sides: dict[str, Side] = {}
        for name, inputs in SIDES.items():
            shards = stack.enter_context(start_shards(1, directory / name, maxmemory_bytes=2 << 30))
            self.sides[name] = Side(shards.connect(), inputs)
            stack.callback(self.sides[name].worker.close)

    def run(self, frames: Frames, ticks: range, together: int) -> dict[str, float]:
        """CPU seconds of each side."""
        before = {name: side.cpu for name, side in self.sides.items()}
        for number in ticks:
            sent = frames.tick(number)
            for first in range(0, len(sent), together):
                for side in self.sides.values():
                    side.take(sent[first : first + together])
        return {name: side.cpu - before[name] for name, side in self.sides.items()}

    def memory_over_off(self) -> dict[str, int]:
        """Bytes of each side's shard in excess of that of off."""
        held = {name: side.records_memory() for name, side in self.sides.items()}
        return {name: held[name] - held["off"] for name in held if name != "off"}


def measure_cpu(workload: Workload, ticks: int, together: Sequence[int]) -> dict[str, Any]:
    """Nanoseconds of CPU per sample of all sides, and their ratio to off, by the number of frames at once."""
    found: dict[str, Any] = {}
    frames = Frames(workload, keys.tags(keys.DEFAULT_PARTITIONS), "vms", resource_set(workload.metrics).metrics)
    with tempfile.TemporaryDirectory(prefix="inputs-cost-") as directory, ExitStack() as stack:
        bench = Bench(stack, Path(directory))
        bench.run(frames, range(_WARM_UP), workload.hosts)
        at = _WARM_UP
        for size in together:
            cpu = bench.run(frames, range(at, at + ticks), size)
            at += ticks
            samples = ticks * workload.hosts * workload.samples_per_frame
            found[str(size)] = {
                "ns_per_sample": {name: round(seconds / samples * 1e9, 2) for name, seconds in cpu.items()},
                "to_off": {name: round(cpu[name] / cpu["off"], 3) for name in cpu if name != "off"},
            }
    return found


def measure_memory(name: str, hosts: int, entities: int, columns: int) -> dict[str, float]:
    """Kilobytes of the shards over off, per series, for a probe's metrics."""
    with tempfile.TemporaryDirectory(prefix="inputs-cost-") as directory, ExitStack() as stack:
        bench = Bench(stack, Path(directory))
        bench.run(frames_of(name, hosts, entities), range(_RING), hosts)
        series = hosts * entities * columns
        return {side: round(more / series / 1000, 3) for side, more in bench.memory_over_off().items()}


def _text(found: Mapping[str, Any]) -> list[str]:
    lines = [
        f"frames in turns of {size:>4}: to off {cost['to_off']}, ns per sample {cost['ns_per_sample']}"
        for size, cost in found["together"].items()
    ]
    lines += [f"kB per series over off, {what}: {each}" for what, each in found.get("kb_per_series", {}).items()]
    return lines


@program("inputs_cost")
def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = outcome.parser("inputs_cost", __doc__ or "", "", hosts=100, entities=101, metrics=15)
    parser.add_argument("--ticks", type=int, default=60, help="measured, after windows have filled")
    parser.add_argument("--together", type=int, nargs="+", default=[100, 10, 1], help="frames that arrive at once")
    parser.add_argument("--no-memory", action="store_true", help="only the CPU")
    options = parser.parse_args(argv)
    keep_freed_memory()
    workload = Workload(options.hosts, options.entities, options.metrics, invalid=_INVALID)
    cpu = measure_cpu(workload, options.ticks, options.together)
    found: dict[str, Any] = {"ratio": cpu[str(options.together[0])]["to_off"]["shipped"], "together": cpu}
    if not options.no_memory:
        found["kb_per_series"] = {
            "vms of 101": measure_memory("vms", 10, 101, 1),
            "a host alone": measure_memory("host", 100, 1, 3),
        }
    found |= {"ticks": options.ticks, **workload._asdict()}
    return outcome.conclude(outcome.document("inputs_cost", argv, [], found), options, _text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
