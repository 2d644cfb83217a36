"""From accepted frames to flat batches, and from results back to states and records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes as validity
from acquisition.wire.frame import Frame
from acquisition.wire.smoothed import EXCEPTION
from filters.kernels import Kernel, computed
from filters.kernels.native import ADVANCE, NATIVE_KERNELS, Advance
from filters.kernels.numpy_step import Batch, Codes, Positions, Smoothed, advance
from filters.worker.partition import Partition
from filters.worker.record import RecordEncoder, exceptions_of
from filters.worker.state import State

#: Planes of a batch stay within the second-level cache of a core: some 50,000 samples.
_MOST_SAMPLES = 48 * 1024


class Item(NamedTuple):
    """A frame to smooth, the state that it advances, and the partition that commits it."""

    partition: Partition
    state: State
    frame: Frame


def batches(items: list[Item]) -> Iterator[list[Item]]:
    """Split so that no state appears twice in a batch and frames of one state stay in order."""
    rounds: list[list[Item]] = []
    seen: dict[int, int] = {}
    for item in items:
        turn = seen.get(id(item.state), 0)
        seen[id(item.state)] = turn + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(item)
    for one_round in rounds:
        batch: list[Item] = []
        samples = 0
        for item in one_round:
            batch.append(item)
            samples += item.frame.samples
            if samples >= _MOST_SAMPLES:
                yield batch
                batch, samples = [], 0
        if batch:
            yield batch


class Smoother:
    """Advances states and leaves the records to their partitions' next commits.

    With ``native`` (filters.kernels.native) frame by frame and in place, else by batches with numpy.
    """

    def __init__(
        self,
        kernels: tuple[Kernel, ...],
        encoder: RecordEncoder,
        tau_seconds: float,
        native: Advance | None = ADVANCE,
    ) -> None:
        self.kernels = computed(kernels)
        self._encoder = encoder
        self._tau = np.array([tau_seconds])
        self._numbers = bytes(kernel.plane.number for kernel in self.kernels)
        self._native = native if all(kernel in NATIVE_KERNELS for kernel in self.kernels) else None

    def smooth(self, items: list[Item]) -> None:
        """Apply one batch; every state at most once."""
        if self._native is None:
            self._smooth_together(items)
        else:
            self._smooth_singly(items, self._native)

    def _smooth_singly(self, items: list[Item], advance_one: Advance) -> None:
        now = time.time()
        for item in items:
            partition, state, frame = item
            partition.settle(state)
            dt = state.begin(frame, self.kernels)
            tau = state.tau
            tau = self._tau if tau is None or tau.size != frame.metrics else tau
            planes = state.planes
            step = advance_one(planes, self._numbers, frame.values, frame.codes, state.exceptions, dt, tau)
            state.end(frame, planes, *step)
            self._keep(item, now)

    def _smooth_together(self, items: list[Item]) -> None:
        dt = np.array([item.state.begin(item.frame, self.kernels) for item in items])
        counts = np.array([item.frame.samples for item in items], np.intp)
        starts = np.concatenate(([0], np.cumsum(counts)))
        exceptions, ages = _join_exceptions(items, starts)
        result = advance(
            self.kernels,
            Batch(
                counts,
                np.frombuffer(b"".join([item.frame.values for item in items]), "<f4"),
                join_codes(items),
                dt,
                self._taus(items),
                np.concatenate([item.state.planes for item in items], axis=1),
                exceptions,
                ages,
            ),
        )
        self._distribute(items, starts, result)

    def _distribute(self, items: list[Item], starts: Positions, result: Smoothed) -> None:
        unusable = np.concatenate(([0], np.cumsum((result.codes & validity.CODE_MASK) != validity.VALID)))
        unused = np.diff(unusable[np.searchsorted(result.exceptions, starts)]).tolist()
        exceptions = exceptions_of(result, starts)
        edges = starts.tolist()
        now = time.time()
        for i, item in enumerate(items):
            planes = np.ascontiguousarray(result.planes[:, edges[i] : edges[i + 1]])
            item.state.end(item.frame, planes, exceptions[i], unused[i])
            self._keep(item, now)

    def _keep(self, item: Item, now: float) -> None:
        """Leave the record to the partition's next commit; it shows the state's own planes."""
        partition, state, frame = item
        slot = frame.tick % len(state.prefixes)
        pieces = self._encoder.set_command(state.prefixes[slot], frame, state.planes.data, state.exceptions, now)
        partition.keep_record(state, slot, pieces)

    def _taus(self, items: list[Item]) -> npt.NDArray[np.float64]:
        if all(item.state.tau is None for item in items):
            return self._tau
        rows = []
        for _, state, frame in items:
            tau = state.tau
            fits = tau is not None and tau.size == frame.metrics
            rows.append(
                np.tile(tau, frame.entities) if tau is not None and fits else np.repeat(self._tau, frame.samples)
            )
        return np.concatenate(rows)


def join_codes(items: list[Item]) -> Codes | None:
    """The codes of all frames behind each other; None when all samples are valid."""
    if not any(item.frame.codes for item in items):
        return None
    return np.frombuffer(b"".join([item.frame.codes or bytes(item.frame.samples) for item in items]), np.uint8)


def _join_exceptions(items: list[Item], starts: Positions) -> tuple[Positions, npt.NDArray[np.float32]]:
    sizes = [len(item.state.exceptions) // EXCEPTION.itemsize for item in items]
    table = np.frombuffer(b"".join([item.state.exceptions for item in items]), EXCEPTION)
    return table["index"] + np.repeat(starts[:-1], sizes), table["age"]
