"""The smoothed state of one (host, resource set) in the worker's memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from acquisition.wire import keys
from acquisition.wire.position import WANT_TABLE
from acquisition.wire.smoothed import EXCEPTION, Floats, SmoothedRecord
from filters.kernels import Kernel, computed
from filters.worker.inputs.state import InputsState
from filters.worker.name_table import NameTable
from filters.worker.sequence import Track


class State:
    """``planes`` float32 (P, n * m), one row per computed kernel; ``marks`` the exceptions of the newest
    record as bytes (acquisition.wire.smoothed.EXCEPTION): which samples were not valid then, and for how long.

    ``prefixes`` are the packed beginnings of the SET commands of the kept slots.
    """

    __slots__ = (
        "host", "ids", "inputs", "inputs_names", "marks", "member", "metrics", "monotonic", "names",
        "names_key", "planes", "prefixes", "resource_set", "schema", "tau", "track",
    )  # fmt: skip

    def __init__(self, tag: str, host: int, resource_set: int, keep_ticks: int) -> None:
        self.host = host
        self.resource_set = resource_set
        self.member = keys.member(host, resource_set).encode()
        self.names_key = keys.names(tag, host, resource_set)
        slots = (keys.smoothed(tag, host, resource_set, slot) for slot in range(keep_ticks))
        self.prefixes = [f"*5\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n$".encode() for key in slots]
        self.track = Track()
        self.names: NameTable | None = None
        self.tau: npt.NDArray[np.float64] | None = None
        self.schema = 0
        self.metrics = -1  # no frame has so many: the first one is always aligned
        self.ids = b""
        self.monotonic = 0.0
        self.planes: Floats = np.empty((0, 0), np.float32)
        self.marks = b""
        self.inputs: InputsState | None = None
        self.inputs_names: NameTable | None = None  #: the names that ``inputs`` were planned by

    def restore(self, record: SmoothedRecord, kernels: tuple[Kernel, ...]) -> None:
        """Go on from a record that this or another worker wrote.

        A plane that the record lacks (a kernel added since) makes all samples start anew.
        """
        kernels = computed(kernels)
        if any(kernel.name not in record.planes for kernel in kernels):
            return
        n, m = next(iter(record.planes.values())).shape
        self.schema, self.metrics, self.monotonic = record.schema, m, record.monotonic
        self.ids = record.ids.tobytes()
        self.planes = np.empty((len(kernels), n * m), np.float32)
        for row, kernel in enumerate(kernels):
            self.planes[row] = record.planes[kernel.name].reshape(n * m)
        self.marks = record.exceptions.tobytes()

    def align(self, ids: bytes, schema: int, metrics: int, kernels: tuple[Kernel, ...]) -> None:
        """Lay the state out for other rows or columns: who stays keeps their values, newcomers
        have none (NaN, infinite age), who is gone is forgotten."""
        new_ids = np.frombuffer(ids, "<u8")
        rows, depth = new_ids.size, len(kernels)
        planes = np.full((depth, rows, metrics), np.nan, np.float32)
        age = np.full((rows, metrics), np.inf, np.float32)
        if schema == self.schema and metrics == self.metrics and self.ids:
            old_ids = np.frombuffer(self.ids, "<u8")
            _, here, there = np.intersect1d(new_ids, old_ids, return_indices=True)
            old_age = np.zeros(self.planes.shape[1], np.float32)
            old_age[self.exceptions["index"]] = self.exceptions["age"]
            planes[:, here] = self.planes.reshape(depth, old_ids.size, metrics)[:, there]
            age[here] = old_age.reshape(old_ids.size, metrics)[there]
        self.ids, self.schema, self.metrics = ids, schema, metrics
        self.planes = planes.reshape(depth, rows * metrics)
        self.track.flags = 0 if self.names is not None and self.names.covers(new_ids) else WANT_TABLE
        self._mark(np.flatnonzero(age), age.ravel())

    def learn(self, names: NameTable, tau: npt.NDArray[np.float64] | None) -> None:
        """Take the names of rows and columns, and the time constants of the columns (FilterSettings.tau_row)."""
        self.names, self.tau = names, tau
        self.track.flags = 0

    def ask_for_table(self) -> None:
        """Have the probe send its names again."""
        self.track.flags = WANT_TABLE

    def start_anew(self) -> None:
        """Forget all values: the probe's monotonic clock went back, so no elapsed time is known."""
        samples = self.planes.shape[1]
        self._mark(np.arange(samples), np.full(samples, np.inf, np.float32))

    @property
    def exceptions(self) -> npt.NDArray[np.void]:
        """``marks`` as an EXCEPTION array."""
        return np.frombuffer(self.marks, EXCEPTION)

    def _mark(self, index: npt.NDArray[np.intp], age: Floats) -> None:
        table = np.zeros(index.size, EXCEPTION)  # no codes: these samples wait for their next frame
        table["index"], table["age"] = index, age[index]
        self.marks = table.tobytes()
