"""``python -m experiments.inputs_cost``: the filter's CPU time per sample with and without decision inputs, in one run.

    python -m experiments.inputs_cost                        # 100 hosts x 101 entities x 15 metrics
    python -m experiments.inputs_cost --together 10          # frames arrive in tens, as they do from many hosts

Two filter workers, each with a shard of its own, take the same frames in turn, tick by tick, so that whatever else
the machine does falls on both. CPU time is that of this process inside the workers' turns: receiving,
decoding, smoothing, encoding and sending, the shards' own not included. Beside it stands the CPU time of the smoothing
step and of the inputs step alone. 1% of the samples are invalid, so that windows have holes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from acquisition.link.cluster import Cluster, read_layout
from acquisition.model import codes as validity
from acquisition.model.metric import resource_set_id, schema_hash
from acquisition.shards.launch import start_shards
from acquisition.wire import frame as wire
from acquisition.wire import keys, table
from acquisition.wire.frame import Frame
from experiments.emulation.workload import Workload, host_number, resource_set
from experiments.processes.program import program
from filters.runtime.memory import keep_freed_memory
from filters.worker.assembly import lone_worker
from filters.worker.inputs.plan import InputsSettings
from filters.worker.settings import FilterSettings

_POOL = 16
_INVALID = 0.01


class Sent(NamedTuple):
    """An entry of a raw stream: its key and the frame."""

    key: str
    data: bytes


class Frames:
    """Makes the frames of every tick; all values change from tick to tick."""

    def __init__(self, workload: Workload, tags: tuple[str, ...]) -> None:
        self._workload = workload
        self._tags = tags
        self._metrics = resource_set(workload.metrics).metrics
        self._schema, self._set = schema_hash(self._metrics), resource_set_id("vms")
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
            payload = table.encode(table.Table(f"host{index}", "vms", 1.0, "procfs", True, self._metrics, entities))
            made = Frame(wire.KIND_TABLE, 0, host, self._set, 0, 0, 1.0, 1, 1, 1, 0, 0, 0.0, 0.0, payload=payload)
        else:
            values, marks = self._pool[(index + number * 7) % _POOL]
            made = Frame(
                wire.KIND_SAMPLES, self._schema, host, self._set, workload.entities, workload.metrics, 1.0, 1,
                number + 1, 1, (number - 1) * workload.samples_per_frame, int(at), at + 0.5, at, self._ids, values,
                marks,
            )  # fmt: skip
        return Sent(keys.raw(self._tags[keys.partition_of(host, len(self._tags))]), wire.encode(made))


class Side:
    """A worker with a shard of its own, and the CPU seconds that it has taken."""

    def __init__(self, cluster: Cluster, settings: FilterSettings) -> None:
        self._cluster = cluster
        self.worker = lone_worker(cluster, read_layout(cluster), settings)
        self.steps = {"smooth": 0.0, "inputs": 0.0}
        self.cpu = 0.0
        self._frames = 0
        self._watch(self.worker._smoother, "smooth", "smooth")
        self._watch(self.worker._inputs, "advance", "inputs")

    def _watch(self, part: object, method: str, name: str) -> None:
        inner = getattr(part, method)

        def timed(batch: object) -> None:
            began = time.process_time()
            inner(batch)
            self.steps[name] += time.process_time() - began

        setattr(part, method, timed)

    def take(self, sent: list[Sent]) -> None:
        """Push entries, and turn the worker until it has smoothed them."""
        self._cluster.gather([(key, ("XADD", key, "*", keys.ENTRY_FIELD, data)) for key, data in sent])
        self._frames += sum(1 for _, data in sent if data[9] == wire.KIND_SAMPLES)
        deadline = time.monotonic() + 30.0
        began = time.process_time()
        while self.worker.counters["frames"] < self._frames:
            self.worker.turn(0.02)
            if time.monotonic() > deadline:
                raise TimeoutError("the filter does not keep up")
        self.cpu += time.process_time() - began

    def forget(self) -> None:
        """Begin to measure."""
        self.cpu = 0.0
        self.steps = dict.fromkeys(self.steps, 0.0)


def measure(workload: Workload, ticks: int, warm_up: int, together: int) -> dict[str, object]:
    """Nanoseconds of CPU per sample of both sides, and their ratio; windows are full before it is measured."""
    with tempfile.TemporaryDirectory(prefix="inputs-cost-") as directory, ExitStack() as stack:
        sides = {"ema": FilterSettings(linger_seconds=0.0)}
        sides["inputs"] = FilterSettings(linger_seconds=0.0, inputs=InputsSettings())
        made = {}
        for name, settings in sides.items():
            shards = stack.enter_context(start_shards(1, Path(directory) / name, maxmemory_bytes=1 << 30))
            made[name] = Side(shards.connect(), settings)
        frames = Frames(workload, keys.tags(keys.DEFAULT_PARTITIONS))
        _run(made, frames, range(warm_up), together)
        for side in made.values():
            side.forget()
        _run(made, frames, range(warm_up, warm_up + ticks), together)
        for side in made.values():
            side.worker.close()
    samples = ticks * workload.hosts * workload.samples_per_frame
    return _report(made, samples) | {"together": together, "ticks": ticks, **workload._asdict()}


def _run(sides: dict[str, Side], frames: Frames, ticks: range, together: int) -> None:
    for number in ticks:
        sent = frames.tick(number)
        for first in range(0, len(sent), together):
            for side in sides.values():
                side.take(sent[first : first + together])


def _report(sides: dict[str, Side], samples: int) -> dict[str, object]:
    def each(seconds: float) -> float:
        return round(seconds / samples * 1e9, 2)

    ema, inputs = sides["ema"], sides["inputs"]
    return {
        "filter_ns_per_sample": {name: each(side.cpu) for name, side in sides.items()},
        "ratio": round(inputs.cpu / ema.cpu, 3),
        "smoothing_step_ns_per_sample": {name: each(side.steps["smooth"]) for name, side in sides.items()},
        "inputs_step_ns_per_sample": each(inputs.steps["inputs"]),
        "step_ratio": round((inputs.steps["smooth"] + inputs.steps["inputs"]) / inputs.steps["smooth"], 3),
    }


@program("inputs_cost")
def main(argv: list[str]) -> int:
    """Print the report; as JSON with ``--json``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--entities", type=int, default=101)
    parser.add_argument("--metrics", type=int, default=15)
    parser.add_argument("--ticks", type=int, default=60, help="measured, after windows have filled")
    parser.add_argument("--together", type=int, default=100, help="frames that arrive at once")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    keep_freed_memory()
    workload = Workload(options.hosts, options.entities, options.metrics, invalid=_INVALID)
    found = measure(workload, options.ticks, 35, options.together)
    print(json.dumps(found) if options.json else "\n".join(f"{name:32} {value}" for name, value in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
