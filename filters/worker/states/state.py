"""Smoothed state of one (host, resource set) in a worker's memory."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from acquisition.wire import keys
from acquisition.wire.frame import Frame
from acquisition.wire.records.planes import MEAN
from acquisition.wire.records.smoothed import EXCEPTION, Floats, SmoothedRecord
from filters.kernels import Kernel, computed
from filters.worker.inputs.rows import who_stayed
from filters.worker.inputs.state import SHORTEST, InputsState
from filters.worker.states.name_table import NameTable
from filters.worker.states.record import set_prefix
from filters.worker.states.sequence import Track
from filters.worker.step.native import Stepper

_MOST_KEPT = 1 << 15  #: samples of a frame with exceptions kept for the next host, 12 bytes each


def shape_of(entities: int, metrics: int) -> int:
    """Both in one number, as compared by filters/worker/step/followers.h."""
    return entities << 16 | metrics


class State:
    """``planes`` float32 (P, n * m), one row per computed kernel; ``exceptions``: those of the newest
    record as bytes (acquisition.wire.records.smoothed.EXCEPTION): samples that were not valid, and for how long.

    ``prefixes``: those of the SET commands of the kept slots (record.set_prefix). Between frames in
    direct succession ``stepper`` holds the state; ``settle`` takes it back.
    """

    __slots__ = (
        "exceptions", "host", "ids", "inputs", "inputs_interval", "inputs_names", "member", "metrics", "monotonic",
        "names", "names_key", "planes", "prefixes", "recent_key", "resource_set", "schema", "shape", "stepper", "tau",
        "track",
    )  # fmt: skip

    def __init__(self, tag: str, host: int, resource_set: int, keep_ticks: int) -> None:
        self.host = host
        self.resource_set = resource_set
        self.member = keys.member(host, resource_set).encode()
        self.names_key = keys.names(tag, host, resource_set)
        self.recent_key = keys.recent(tag, host, resource_set)
        slots = (keys.smoothed(tag, host, resource_set, slot) for slot in range(keep_ticks))
        self.prefixes = tuple(set_prefix(key) for key in slots)
        self.track = Track()
        self.stepper: Stepper | None = None
        self.shape = 0  #: ``shape_of`` the newest accepted frame
        self.names: NameTable | None = None
        self.tau: npt.NDArray[np.float64] | None = None
        self.schema = 0
        self.metrics = -1  # no frame has this number: the first one is always aligned
        self.ids = b""
        self.monotonic = 0.0
        self.planes: Floats = np.empty((0, 0), np.float32)
        self.exceptions = b""
        self.inputs: InputsState | None = None
        self.inputs_names: NameTable | None = None  #: the names used for the plan of ``inputs``
        self.inputs_interval = 0.0  #: and the seconds between two ticks

    def restore(self, record: SmoothedRecord, kernels: tuple[Kernel, ...]) -> None:
        """Continue from a record written by this or another worker.

        A plane missing in the record (a kernel added since) starts at the mean; without a mean all samples restart.
        """
        kernels = computed(kernels)
        known = record.planes
        if MEAN.name not in known and any(kernel.name not in known for kernel in kernels):
            return
        n, m = next(iter(record.planes.values())).shape
        self.schema, self.metrics, self.monotonic = record.schema, m, record.monotonic
        self.ids = record.ids.tobytes()
        self.shape = shape_of(n, m)
        self.planes = np.empty((len(kernels), n * m), np.float32)
        for row, kernel in enumerate(kernels):
            plane = known[kernel.name] if kernel.name in known else kernel.prime(known[MEAN.name])
            self.planes[row] = np.reshape(plane, -1)
        self.exceptions = record.exceptions.tobytes()

    @property
    def exception_table(self) -> npt.NDArray[np.void]:
        """The exceptions of the newest record as an EXCEPTION array."""
        return np.frombuffer(self.exceptions if self.stepper is None else self.stepper.state()[0], EXCEPTION)

    def begin(self, frame: Frame, kernels: tuple[Kernel, ...]) -> float:
        """Prepare for the samples of a frame: align rows, and return the seconds since the previous frame (> 0)."""
        if frame.ids != self.ids or frame.schema != self.schema or frame.metrics != self.metrics:
            self._align(frame.ids, frame.schema, frame.metrics, kernels)
        dt = frame.monotonic - self.monotonic
        if not dt >= SHORTEST:
            self._start_anew()
            dt = 1.0
        self.monotonic = frame.monotonic
        return dt

    def accept(self, frame: Frame) -> None:
        """Note that a frame of samples is within the limits of its host: others of the same shape need no check."""
        self.shape = shape_of(frame.entities, frame.metrics)

    def take(self, planes: Floats) -> None:
        """Continue with planes computed elsewhere, float32 (P, n * m), C-contiguous."""
        self.planes = planes

    def end(self, frame: Frame, exceptions: bytes, invalid: int) -> None:
        """Store the results of a frame with advanced planes; ``invalid``: number of samples that failed a check."""
        self.exceptions = exceptions
        if invalid:
            self.track.count_invalid(frame.epoch, invalid)

    def _align(self, ids: bytes, schema: int, metrics: int, kernels: tuple[Kernel, ...]) -> None:
        """Lay the state out for other rows or columns: entities that stay keep their values, new ones
        have none (NaN, infinite age), those gone are forgotten."""
        new_ids = np.frombuffer(ids, "<u8")
        rows, depth = new_ids.size, len(kernels)
        planes = np.full((depth, rows, metrics), np.nan, np.float32)
        self.track.want_table(self.names is None or not self.names.covers(new_ids))
        if schema == self.schema and metrics == self.metrics and self.ids:
            age = np.full((rows, metrics), np.inf, np.float32)
            old_rows = len(self.ids) // new_ids.itemsize
            known = np.zeros((old_rows, metrics), np.float32)
            known.ravel()[self.exception_table["index"]] = self.exception_table["age"]
            before = self.planes.reshape(depth, old_rows, metrics)
            for here, there in who_stayed(ids, self.ids).runs:
                planes[:, here], age[here] = before[:, there], known[there]
            self._except(np.flatnonzero(age), age.ravel())
        else:
            self.exceptions = _unknown(rows * metrics)
        self.ids, self.schema, self.metrics = ids, schema, metrics
        self.planes = planes.reshape(depth, rows * metrics)

    def forget(self) -> None:
        """Restart with the next frame, as if it were the first."""
        self.ids, self.schema, self.metrics, self.exceptions = b"", 0, -1, b""
        self.planes = np.empty((0, 0), np.float32)
        self.inputs, self.inputs_names, self.stepper = None, None, None

    def hand_over(self, stepper: Stepper) -> None:
        """Let the native step continue by itself, as long as frames are in direct succession."""
        self.stepper = stepper

    def settle(self) -> None:
        """Continue from the native step's state, if it has continued by itself."""
        if self.stepper is not None:
            self.exceptions, self.monotonic, step = self.stepper.state()
            self.stepper = None
            if step and self.inputs is not None:  # 0: those frames had no inputs
                self.inputs.go_on(step, self.monotonic)

    @property
    def newest(self) -> float:
        """CLOCK_MONOTONIC of the host at its newest frame, in seconds."""
        return self.monotonic if self.stepper is None else self.stepper.state()[1]

    def learn(self, names: NameTable, tau: npt.NDArray[np.float64] | None) -> None:
        """Set the names of rows and columns, and the time constants of the columns (FilterSettings.tau_row)."""
        if self.names is None or names.schema != self.names.schema:  # otherwise its plan and time constants stay
            self.settle()
        self.names, self.tau = names, tau
        self.track.want_table(False)

    def plan_inputs(self, inputs: InputsState | None, interval: float) -> None:
        """Set the decision inputs required by the current names and this interval."""
        self.inputs, self.inputs_names, self.inputs_interval = inputs, self.names, interval

    def ask_for_table(self) -> None:
        """Make the probe resend its names."""
        self.track.want_table(True)

    def _start_anew(self) -> None:
        """Forget all values: the probe's monotonic clock went back, so no elapsed time is known."""
        self.exceptions = _unknown(self.planes.shape[1])

    def _except(self, index: npt.NDArray[np.intp], age: Floats) -> None:
        self.exceptions = _exceptions(index, age[index])


def _exceptions(index: npt.NDArray[np.intp], age: Floats) -> bytes:
    table = np.zeros(index.size, EXCEPTION)  # without codes: these samples wait for their next frame
    table["index"], table["age"] = index, age
    return table.tobytes()


def _unknown(samples: int) -> bytes:
    """Exceptions of samples without any values: equal for hosts of one kind."""
    return _all_unknown(samples) if samples <= _MOST_KEPT else _all_unknown.__wrapped__(samples)


@lru_cache(maxsize=16)
def _all_unknown(samples: int) -> bytes:
    return _exceptions(np.arange(samples), np.full(samples, np.inf, np.float32))
