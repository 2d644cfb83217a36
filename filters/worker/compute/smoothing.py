"""Smoothing: advances states by frames, adds records to their batches.

With the native step (filters.worker.step) state by state: a run of frames in direct succession is one call,
which smooths, updates the decision inputs and encodes; for any other frame Python prepares the state first. With
numpy, the definition of the step, by batches.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from acquisition.model.codes import IS_INVALID
from acquisition.wire.records.planes import MEAN
from acquisition.wire.records.recent import SEED_EVERY, SEEDS
from acquisition.wire.records.smoothed import EXCEPTION, Floats
from filters.kernels import Kernel, computed
from filters.kernels.numpy_step import Batch, Positions, Smoothed, advance
from filters.worker.compute import stage
from filters.worker.compute.agreed import STEP
from filters.worker.compute.batching import Item, batches, join_codes
from filters.worker.compute.stage import Member
from filters.worker.inputs.ring import Ring
from filters.worker.inputs.state import MEAN as DERIVED_MEAN
from filters.worker.inputs.state import InputsState
from filters.worker.partitions.batch import Accepted
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.record import RecordEncoder, exceptions_of
from filters.worker.step.native import Step, step_of

_IS_INVALID = np.frombuffer(IS_INVALID, np.bool_)
_MOST_ENTITIES = 1 << 17  #: of one resource set of one host; a larger frame has no inputs


class Smoother:
    """``kernels`` of the records; without the kernel ``mean`` there are no decision inputs, for lack of a baseline."""

    def __init__(self, settings: FilterSettings, kernels: tuple[Kernel, ...], native: Step | None = STEP) -> None:
        self.kernels = computed(kernels)
        self._settings = settings
        self._expire = max(1, int(settings.expire_seconds))
        self._encoder = RecordEncoder(kernels, self._expire, settings.versions.smoothed)
        self._tau = np.array([settings.tau_seconds])
        self._numbers = bytes(kernel.plane.number for kernel in self.kernels)
        self._mean = next((row for row, kernel in enumerate(self.kernels) if kernel.plane == MEAN), None)
        self._native = native and step_of(kernels)

    def smooth(self, accepted: list[Accepted]) -> None:
        """Apply frames; those of one state in order."""
        if self._native is None:
            others = [Item(each.batch, each.state, each.decoded()) for each in accepted]
        else:
            others = self._smooth_natively(accepted, self._native)
        if others:
            for batch in batches(others):
                self._smooth_together(batch)

    # ---------------------------------------------------------------- decision inputs

    def _inputs_of(self, item: Item) -> InputsState | None:
        """The inputs advanced by a frame: of columns known from its table."""
        _, state, frame = item
        names = state.names
        if names is not state.inputs_names or frame.interval != state.inputs_interval:
            state.plan_inputs(self._planned(item), frame.interval)
        if state.inputs is None or names is None:
            return None
        known = names.schema == frame.schema and len(names.metrics) == frame.metrics
        return state.inputs if known and 0 < frame.entities <= _MOST_ENTITIES else None

    def _planned(self, item: Item) -> InputsState | None:
        """Inputs of a resource set with a new table or interval: the existing ones, if their plan is unchanged."""
        _, state, frame = item
        if state.names is None or self._mean is None:
            return None
        plan = self._settings.plan(state.resource_set, state.names.metrics, frame.interval)
        if plan is None:
            return None
        inputs = state.inputs
        if inputs is not None and inputs.plan is plan:
            return inputs
        ring = Ring(state.recent_key, state.host, state.resource_set, plan, self._settings.versions.recent)
        return InputsState(plan, ring, 0 if inputs is None else inputs.step)

    def _keep_ring(self, item: Item, inputs: InputsState) -> None:
        """Write periodic data after a row: the averages from which others are computed, time to live."""
        kept, means = inputs.arrays(), None
        if inputs.begins or inputs.ring.unseeded or inputs.step % SEED_EVERY == 0:
            means = np.concatenate((self._means(item, inputs), kept.derived[DERIVED_MEAN]))
        inputs.ring.keep(inputs.step, means, kept.slots, self._expire, item.batch.also)

    def _means(self, item: Item, inputs: InputsState) -> Floats:
        """Averages of the columns in frames, float32 (S, E), a view."""
        _, state, frame = item
        means: Floats = state.planes[self._mean].reshape(frame.entities, frame.metrics).T[list(inputs.plan.sources)]
        return means

    # ---------------------------------------------------------------- the native step

    def _smooth_natively(self, accepted: list[Accepted], native: Step) -> list[Item]:
        """Returns the items left to numpy: those with a formula unknown to the native step."""
        others: list[Item] = []
        now, moment = time.time(), time.monotonic()
        for run in native.run_all(accepted, now, moment):
            left = run
            while left:
                item = Item(left[0].batch, left[0].state, left[0].decoded())
                if not self._smooth_one(item, native, now, moment):
                    others += [Item(each.batch, each.state, each.decoded()) for each in left]
                    break
                left = next(iter(native.run_all(left[1:], now, moment)), [])
        return others

    def _smooth_one(self, item: Item, native: Step, now: float, moment: float) -> bool:
        """Smooth one frame of any kind, then hand over its state; false if it is left to numpy."""
        batch, state, frame = item
        state.settle()
        inputs = None if self._settings.inputs is None else self._inputs_of(item)
        if inputs is not None and inputs.plan.packed is None:
            return False
        dt = state.begin(frame, self.kernels)
        tau = self._tau if state.tau is None or state.tau.size != frame.metrics else state.tau
        prefix = state.prefixes[frame.tick % len(state.prefixes)]
        head, tail, raw = self._encoder.header(frame, now), self._encoder.tail, self._encoder.raw
        given = None if inputs is None else inputs.native(frame, batch.also)
        exceptions, invalid, record, row = native.advance(
            state.planes, self._numbers, frame.values, frame.codes, state.exceptions, dt, tau, head, frame.ids, raw,
            prefix, tail, given,
        )  # fmt: skip
        state.end(frame, exceptions, invalid)
        batch.keep_record(prefix, record)
        lives_until = 0.0
        if inputs is not None and row is not None:
            batch.also(row)
            ring = inputs.ring
            if inputs.begins or ring.unseeded or not inputs.step % SEED_EVERY or ring.lives_until <= moment:
                self._keep_ring(item, inputs)
            lives_until = ring.lives_until
        if frame.samples:
            state.hand_over(
                native.make_stepper(
                    state.planes, self._numbers, exceptions, tau, head, frame.ids, raw, state.prefixes, tail,
                    state.track, frame.monotonic, given, SEED_EVERY, SEEDS, lives_until,
                )
            )  # fmt: skip
        return True

    # ---------------------------------------------------------------- numpy

    def _smooth_together(self, items: list[Item]) -> None:
        dt = np.array([item.state.begin(item.frame, self.kernels) for item in items])
        members = [None if (inputs := self._inputs_of(item)) is None else self._member(item, inputs) for item in items]
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
        _distribute(items, starts, result)
        rows = stage.advance([member for member in members if member is not None])
        now = time.time()
        for item, member in zip(items, members, strict=True):
            self._keep(item, None if member is None else member.inputs, now)
            if member is not None:
                item.batch.also(rows[id(member.inputs)])
                self._keep_ring(item, member.inputs)

    def _member(self, item: Item, inputs: InputsState) -> Member:
        begun = inputs.begin(item.frame, item.batch.also)
        if begun.missing:
            inputs.skip(begun.missing)
        means = np.full_like(self._means(item, inputs), np.nan) if inputs.begins else self._means(item, inputs).copy()
        return Member(item, inputs, begun, means)

    def _keep(self, item: Item, inputs: InputsState | None, now: float) -> None:
        batch, state, frame = item
        prefix = state.prefixes[frame.tick % len(state.prefixes)]
        section = b"" if inputs is None else inputs.section()
        record = self._encoder.set_command(prefix, frame, state.planes.data, state.exceptions, now, section)
        batch.keep_record(prefix, record)

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


def _distribute(items: list[Item], starts: Positions, result: Smoothed) -> None:
    """Write the results of its samples to every state."""
    failed = np.concatenate(([0], np.cumsum(_IS_INVALID[result.codes])))
    invalid = np.diff(failed[np.searchsorted(result.exceptions, starts)]).tolist()
    exceptions = exceptions_of(result, starts)
    edges = starts.tolist()
    for i, item in enumerate(items):
        item.state.take(np.ascontiguousarray(result.planes[:, edges[i] : edges[i + 1]]))
        item.state.end(item.frame, exceptions[i], invalid[i])


def _join_exceptions(items: list[Item], starts: Positions) -> tuple[Positions, npt.NDArray[np.float32]]:
    sizes = [len(item.state.exceptions) // EXCEPTION.itemsize for item in items]
    table = np.frombuffer(b"".join([item.state.exceptions for item in items]), EXCEPTION)
    return table["index"] + np.repeat(starts[:-1], sizes), table["age"]
