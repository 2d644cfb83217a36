"""Decision input bench without shards, beside a scalar history per series.

States are fed frames.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import hiredis
import numpy as np

from acquisition.model import codes
from acquisition.model.inputs import Span
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.wire import frame, table
from acquisition.wire.frame import Frame
from acquisition.wire.position import Commit
from acquisition.wire.records import smoothed
from acquisition.wire.records.inputs import COUNTS, figure_names
from experiments.harness import scalar_model
from experiments.harness.scalar_model import Observation
from filters import kernels
from filters.kernels.numpy_step import LARGEST
from filters.worker.compute.smoothing import Smoother
from filters.worker.inputs.plan import InputsSettings
from filters.worker.inputs.state import InputsState
from filters.worker.partitions.batch import Accepted, Batch
from filters.worker.partitions.partition import CommitEncoder
from filters.worker.partitions.rejections import Rejections
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.name_table import learn
from filters.worker.states.state import State
from filters.worker.step.native import STEP, Step
from tests.support.scalar_inputs import Seen, figures

METRICS = tuple(
    Metric(name, "ratio", "gauge", 0.0, 1e19, "") for name in ("first", "cpu_ratio", "second", "cpu_other_ratio")
)
SCHEMA = schema_hash(METRICS)
VMS = resource_set_id("vms")
EXTREMES = ("lowest", "highest")


def names(metrics: tuple[Metric, ...] = METRICS, resource_set: str = "vms") -> bytes:
    return table.encode(table.Table("host", resource_set, 1.0, "procfs", True, metrics, ()))


#: The step that benches compute with, when they are not given one; tests run with each.
STEPS: dict[str, Step | None] = {"chosen": STEP}


class Bench:
    """``window`` and ``counted`` in ticks of a second, ``plateau`` in valid values; columns 1 and 3 have inputs with
    threshold 0.5 and 0.25, slack 0.1 and 0."""

    def __init__(
        self,
        window: int = 5,
        counted: int = 3,
        plateau: int = 2,
        thresholds: Mapping[str, float] | None = None,
        order_statistics: tuple[str, ...] = ("*",),
        **native: Step | None,
    ) -> None:
        chosen_metrics = {"vms.cpu_ratio": 0.5, "vms.*other*": 0.25} if thresholds is None else thresholds
        self.inputs = InputsSettings(
            Span(window, window), Span(counted, counted), Span(plateau, plateau),
            order_statistics=order_statistics, thresholds=chosen_metrics, slacks={"*.cpu_ratio": 0.1},
        )  # fmt: skip
        self.lengths = window, counted, plateau
        self.settings = FilterSettings(inputs=self.inputs)
        chosen = kernels.select(self.settings.kernels)
        self.smoother = Smoother(self.settings, chosen, native.get("native", STEPS["chosen"]))
        self.batch = Batch(0, Rejections("0"))
        self.states: dict[int, State] = {}
        self.samples: dict[tuple[int, int, int], list[Observation]] = {}
        self.histories: dict[tuple[int, int, int], list[Seen | None]] = {}
        self.last_ids: dict[int, list[int]] = {}

    def state(self, host: int) -> State:
        if host not in self.states:
            state = self.states[host] = State("0", host, VMS, 3)
            state.names = learn(None, names())
        return self.states[host]

    def item(
        self, host: int, at: float, ids: list[int], values: Any, marks: Any = None, *, epoch: int = 1, missing: int = 0
    ) -> Accepted:
        """A frame ``at`` seconds, ``missing`` ticks after the one before; remembers what it says of columns 1 and 3."""
        matrix = np.asarray(values, "<f4")
        flags = np.zeros(matrix.shape, np.uint8) if marks is None else np.asarray(marks, np.uint8)
        before = self.last_ids.get(host, [])
        for row, entity in enumerate(ids):
            for column in (1, 3):
                key = (host, entity, column)
                if entity not in before:
                    self.histories[key], self.samples[key] = [], []
                history, seen = self.histories[key], self.samples[key]
                mean = scalar_model.run(seen, 5.0).mean if seen else math.nan
                value, code = float(matrix[row, column]), int(flags[row, column])
                sample = Observation(at, value, code if abs(value) <= LARGEST else codes.RANGE)
                elapsed = (at - seen[-1].monotonic) / (1 + missing) if seen else math.nan
                history += [None] * missing if seen else []
                seen.append(sample)
                elapsed = 1.0 if math.isnan(elapsed) else elapsed  # an entity's first sample: frames are a second apart
                history.append(Seen(sample.value, sample.code, mean, elapsed))
        self.last_ids[host] = ids
        return self.frame(host, at, ids, matrix, None if marks is None else flags, epoch=epoch)

    def frame(
        self,
        host: int,
        at: float,
        ids: list[int],
        values: Any,
        marks: Any,
        *,
        epoch: int = 1,
        schema: int = SCHEMA,
        interval: float = 1.0,
    ) -> Accepted:
        """A frame that nobody remembers."""
        matrix = np.asarray(values, "<f4")
        made = Frame(
            frame.KIND_SAMPLES, schema, host, VMS, *matrix.shape, interval, epoch, 1, 1, 0,
            int(at) % (1 << 40), 1e6 + at, at,
            np.asarray(ids, "<u8").tobytes(), matrix.tobytes(), b"" if marks is None else marks.tobytes(),
        )  # fmt: skip
        return Accepted(self.batch, self.state(host), made.samples, frame.encode(made))

    def feed(self, *items: Accepted) -> None:
        self.smoother.smooth(list(items))

    def commit(self) -> bytes:
        """The transaction that writes what was fed since the one before it."""
        batch, self.batch = self.batch, Batch(0, self.batch.rejections)
        return b"".join(CommitEncoder("0", None).transaction(batch, Commit(b"", b"0-0", 0)).pieces)

    def committed(self) -> dict[bytes, list[bytes]]:
        """What a commit of everything that was fed says of each record and ring, but for the time at which records were
        made."""
        reader = hiredis.Reader()
        reader.feed(self.commit())
        found: dict[bytes, list[bytes]] = {}
        while (command := reader.gets()) is not False:
            if command[0] == b"SET" and command[1].startswith(b"smoothed"):
                found[command[1]] = [command[2][: smoothed.HEADER_SIZE - 8] + command[2][smoothed.HEADER_SIZE :]]
            elif len(command) > 2 and command[1].startswith(b"recent"):
                found.setdefault(command[1], []).append(b" ".join(command))
        return found

    def found(self, host: int, entity: int, column: int) -> dict[str, float]:
        inputs = self.states[host].inputs
        assert isinstance(inputs, InputsState)
        row, place = np.frombuffer(inputs.ids, "<u8").tolist().index(entity), {1: 0, 3: 1}[column]
        kept = inputs.arrays()
        kinds = figure_names(inputs.plan.head.figures)
        got = {name: float(kept.figures[i, place, row]) for i, name in enumerate(kinds)}
        got |= {name: float(kept.counts[i, place, row]) for i, name in enumerate(COUNTS)}
        return got | {"seen": float(kept.seen[row]), "since": float(kept.since[row])}

    def expected(self, host: int, entity: int, column: int) -> dict[str, float | None]:
        parameters = {1: (0.5, 0.1), 3: (0.25, 0.0)}[column]
        found = figures(self.histories[host, entity, column], *self.lengths, *parameters)
        return {name: value for name, value in found.items() if self.lengths[2] or name not in EXTREMES}
