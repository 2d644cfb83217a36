"""Advances the decision inputs of many frames at once, and leaves what is written to their partitions' commits.

Rows of all frames that have the same plan lie behind each other; arrays are (C, R): columns, rows of all frames.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes as validity
from acquisition.wire.frame import Frame
from acquisition.wire.inputs import PLANES, Floats, plane_count
from filters.kernels.numpy_step import LARGEST
from filters.kernels.step import Kernel
from filters.worker.batching import Item, join_codes
from filters.worker.inputs.counting import Counted, Tick, count
from filters.worker.inputs.derived import Averages, Codes, derive, smooth
from filters.worker.inputs.native import ADVANCE, Advance, can_compute, pack_plan
from filters.worker.inputs.order import ABSENT, order_statistics
from filters.worker.inputs.plan import MOST_PLANS, Plan
from filters.worker.inputs.plateau import extremes, push
from filters.worker.inputs.record import InputsEncoder
from filters.worker.inputs.state import InputsState
from filters.worker.settings import FilterSettings
from filters.worker.state import State

_MOST_ENTITIES = 1 << 17  #: of one resource set of one host; a frame of more has no inputs
_AT = {name: number for number, name in enumerate(PLANES)}


class _Samples(NamedTuple):
    """New samples of a group: ``raw`` (C, R), ``codes`` uint8 (C, R), ``mean`` (C, R), the averages after this tick."""

    raw: Floats
    codes: Codes
    mean: Floats
    averages: Averages | None


class InputsStage:
    """Runs behind the smoothing of every batch; ``kernels`` are the computed ones, in plane order.

    Without the kernel ``mean`` there is no baseline, and nothing is computed.
    """

    def __init__(self, settings: FilterSettings, kernels: tuple[Kernel, ...], native: Advance | None = ADVANCE) -> None:
        self._settings = settings
        self._mean_plane = next((i for i, kernel in enumerate(kernels) if kernel.name == "mean"), None)
        self._encoder = InputsEncoder(settings)
        self._native = native
        self._packed: dict[int, tuple[Plan, bytes | None]] = {}  #: by the plan's id; None: not for the native step

    def advance(self, batch: list[Item]) -> None:
        """Take the samples of frames that have just been smoothed; every state at most once."""
        if self._settings.inputs is None or self._mean_plane is None:
            return
        groups: dict[int, tuple[Plan, list[tuple[Item, InputsState]]]] = {}
        for item in batch:
            inputs = self._inputs_of(item)
            if inputs is None:
                continue
            packed = self._pack(inputs.plan) if self._native is not None else None
            if packed is not None and self._native is not None:
                self._advance_one(item, inputs, packed, self._native)
            else:
                groups.setdefault(id(inputs.plan), (inputs.plan, []))[1].append((item, inputs))
        for plan, members in groups.values():
            self._advance_group(plan, members)

    def plan_of(self, state: State) -> Plan | None:
        """The plan of a resource set; None while its table is unknown, and where nothing of it is configured."""
        names, settings = state.names, self._settings.inputs
        return None if names is None or settings is None else settings.plan(state.resource_set, names.metrics)

    def _inputs_of(self, item: Item) -> InputsState | None:
        _, state, frame = item
        if state.inputs is None or state.inputs_names is not state.names:
            state.plan_inputs(self._planned(state))
        names = state.names
        known = names is not None and names.schema == frame.schema and len(names.metrics) == frame.metrics
        return state.inputs if known and 0 < frame.entities <= _MOST_ENTITIES else None

    def _planned(self, state: State) -> InputsState | None:
        """The inputs of a resource set whose names are new: those that it has, where their plan is still the same."""
        plan, inputs = self.plan_of(state), state.inputs
        if plan is None:
            return None
        if inputs is not None and inputs.plan is plan:
            return inputs
        return InputsState(plan, 0 if inputs is None else inputs.step)

    def _pack(self, plan: Plan) -> bytes | None:
        """The plan as the native step takes it; None where that cannot compute it."""
        known = self._packed.get(id(plan))
        if known is None:
            if len(self._packed) >= MOST_PLANS:
                self._packed.clear()
            known = plan, pack_plan(plan, self._tau(plan)) if can_compute(plan) else None
            self._packed[id(plan)] = known
        return known[1]

    def _advance_one(self, item: Item, inputs: InputsState, packed: bytes, advance_one: Advance) -> None:
        _, state, frame = item
        dt, seconds, missing = inputs.begin(frame)
        row = advance_one(
            inputs.planes,
            inputs.window,
            inputs.sorted_window(),
            inputs.lately,
            inputs.derived,
            packed,
            frame.values,
            frame.codes,
            state.planes[self._mean_plane],
            dt,
            seconds,
            inputs.step,
            missing,
        )
        self._encoder.keep(item, inputs, row)

    def _advance_group(self, plan: Plan, members: list[tuple[Item, InputsState]]) -> None:
        times = np.array([_begin(item.frame, inputs) for item, inputs in members])
        sizes = [item.frame.entities for item, _ in members]
        edges = [0, *np.cumsum(sizes).tolist()]
        spans = list(pairwise(edges))
        dt, seconds = np.repeat(times, sizes, axis=0).T
        samples = self._samples(plan, members, dt)
        usable = ((samples.codes & validity.CODE_MASK) == validity.VALID) & (np.abs(samples.raw) <= LARGEST)
        x = np.where(usable, samples.raw, np.float32(np.nan))
        samples.codes[~usable & ((samples.codes & validity.CODE_MASK) == validity.VALID)] = validity.RANGE
        old = np.concatenate([inputs.planes for _, inputs in members], axis=2)
        leaving = _replace(members, spans, np.where(usable, samples.raw, ABSENT))
        tick = Tick(x, usable, *leaving, old[_AT["mean"]], seconds.astype(np.float32), *_columns(plan))
        counted = count(Counted(old[0], old[1], *old[_AT["valid"] : _AT["above"] + 1]), tick)
        windows = np.concatenate([inputs.window for _, inputs in members], axis=2).transpose(0, 2, 1)
        figures = order_statistics(windows.reshape(-1, plan.window), counted.valid.reshape(-1).astype(np.intp))
        planes = np.empty((plane_count(plan.plateau), *x.shape), np.float32)
        planes[0], planes[1] = counted.cusum, counted.time_above
        for plane, figure in enumerate(figures, 2):
            planes[plane] = figure.reshape(x.shape)
        planes[_AT["mean"]] = samples.mean
        planes[_AT["valid"]], planes[_AT["counted"]], planes[_AT["above"]] = counted[2:]
        if plan.plateau:
            lately = push(np.concatenate([inputs.lately for _, inputs in members], axis=2), x, usable)
            planes[_AT["lowest"] :] = extremes(lately, counted.valid)
            for (_, inputs), (first, end) in zip(members, spans, strict=True):
                inputs.take_plateau(lately[:, :, first:end])
        self._distribute(members, spans, planes, samples)

    def _samples(self, plan: Plan, members: list[tuple[Item, InputsState]], dt: npt.NDArray[np.float64]) -> _Samples:
        m = plan.metrics
        values = np.frombuffer(b"".join([item.frame.values for item, _ in members]), "<f4").reshape(-1, m)
        joined = join_codes([item for item, _ in members])
        codes = None if joined is None else joined.reshape(-1, m)
        kernel = self._mean_plane
        means = np.concatenate([item.state.planes[kernel] for item, _ in members]).reshape(-1, m)
        raw, mean = values.T[list(plan.sources)], means.T[list(plan.sources)]
        raw_codes = np.zeros(raw.shape, np.uint8) if codes is None else codes.T[list(plan.sources)]
        if not plan.derived:
            return _Samples(raw, raw_codes, mean, None)
        made = [
            derive(how, [values[:, part] for part in parts], None if codes is None else [codes[:, p] for p in parts])
            for how, parts in plan.derived
        ]
        x, x_codes = np.array([value for value, _ in made]), np.array([code for _, code in made])
        before = np.concatenate([inputs.derived for _, inputs in members], axis=2)
        known = np.concatenate([inputs.planes[_AT["mean"], len(plan.sources) :] for _, inputs in members], axis=1)
        valid = (x_codes & validity.CODE_MASK) == validity.VALID
        averages = smooth(
            Averages(known, before[1], before[2], before[3]),
            np.where(valid, x, np.float32(np.nan)),
            dt,
            self._tau(plan),
        )
        codes = np.concatenate((raw_codes, x_codes))
        return _Samples(np.concatenate((raw, x)), codes, np.concatenate((mean, averages.mean)), averages)

    def _tau(self, plan: Plan) -> npt.NDArray[np.float64]:
        """Time constants of the derived columns, (D, 1)."""
        names, settings = plan.names[len(plan.sources) :], self._settings
        return np.array([[settings.tau.get(name, settings.tau_seconds)] for name in names])

    def _distribute(
        self,
        members: list[tuple[Item, InputsState]],
        spans: list[tuple[int, int]],
        planes: Floats,
        samples: _Samples,
    ) -> None:
        averages = samples.averages
        kept = None
        if averages is not None:
            last = samples.raw[-averages.mean.shape[0] :]
            kept = np.stack((last, averages.variance, averages.trend, averages.age))
        for (item, inputs), (first, end) in zip(members, spans, strict=True):
            inputs.take(planes[:, :, first:end], None if kept is None else kept[:, :, first:end])
            parts = samples.raw[:, first:end], samples.mean[:, first:end], samples.codes[:, first:end]
            self._encoder.keep(item, inputs, b"".join([part.tobytes() for part in parts]))


def _begin(frame: Frame, inputs: InputsState) -> tuple[float, float]:
    dt, seconds, missing = inputs.begin(frame)
    if missing:
        inputs.skip(missing)
    return dt, seconds


def _columns(plan: Plan) -> tuple[Floats, Floats]:
    return plan.thresholds[:, None], plan.slacks[:, None]


def _replace(members: list[tuple[Item, InputsState]], spans: list[tuple[int, int]], x: Floats) -> tuple[Floats, Floats]:
    """Put new samples into the windows; answers those that they replace, and those that k of n loses, (C, R)."""
    leaving, uncounted = np.empty_like(x), np.empty_like(x)
    for (_, inputs), (first, end) in zip(members, spans, strict=True):
        window, step, n = inputs.window, inputs.step, inputs.plan.window
        uncounted[:, first:end] = window[:, (step - inputs.plan.counted) % n]
        place = window[:, step % n]
        leaving[:, first:end] = place
        place[...] = x[:, first:end]
    return leaving, uncounted
