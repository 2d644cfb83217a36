"""Numpy stage of the decision inputs: the definition of the native step.

It advances many frames at once.

Rows of all frames with the same plan are concatenated; arrays are (C, R): columns, rows of all frames.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes as validity
from acquisition.wire.records import recent
from acquisition.wire.records.inputs import Floats
from filters.kernels.numpy_step import LARGEST
from filters.worker.compute.batching import Item, join_codes
from filters.worker.inputs import bursts
from filters.worker.inputs.derived import Averages, Codes, derive, smooth
from filters.worker.inputs.order import ABSENT, order_statistics
from filters.worker.inputs.plan import NO_PART, Plan
from filters.worker.inputs.state import CUSUM, MEAN, TIME_ABOVE, Arrays, Begun, InputsState


def push(lately: Floats, x: Floats, usable: npt.NDArray[np.bool_]) -> Floats:
    """The last valid samples after adding ``x`` (C, R), which counts if ``usable`` (C, R); ``lately`` (m, C, R), the
    newest first, NaN if there were fewer."""
    after = np.empty_like(lately)
    after[0] = x
    after[1:] = lately[:-1]
    if not usable.all():
        np.copyto(after, lately, where=~usable)
    return after


def extremes(lately: Floats, valid: npt.NDArray[np.int16]) -> tuple[Floats, Floats]:
    """Lowest and highest (C, R) of ``lately``; NaN if a window with ``valid`` (C, R) samples has fewer.

    They are close together while a load is constant. A spike of one to three seconds begins and ends within
    samples, so its first and last one show only a part of it; four consecutive samples that are high and similar are
    not a spike (docs/decisions/0027)."""
    lowest, highest = lately.min(axis=0), lately.max(axis=0)
    few = valid < len(lately)
    if few.any():  # values before the window are unknown to a worker that takes over
        lowest[few] = highest[few] = np.nan
    return lowest, highest


Counts = npt.NDArray[np.int16]


class Tick(NamedTuple):
    """New samples of R rows in C columns, float32.

    ``x`` (C, R), NaN if not ``usable`` (bool); ``leaving`` (C, R): samples replaced in the windows, and
    ``uncounted`` (C, R): samples leaving k of n, ABSENT if not valid; ``baseline`` (C, R): moving average
    before ``x``, NaN if there was none; ``seconds`` (R,) covered by each sample; ``thresholds`` and ``slacks``
    (C, 1).
    """

    x: Floats
    usable: npt.NDArray[np.bool_]
    leaving: Floats
    uncounted: Floats
    baseline: Floats
    seconds: Floats
    thresholds: Floats
    slacks: Floats


class Counted(NamedTuple):
    """(C, R): CUSUM statistic and seconds above the threshold, float32; integers: number of valid samples in the
    window, of valid samples in the last counted ticks, and of those above the threshold."""

    cusum: Floats
    time_above: Floats
    valid: Counts
    counted: Counts
    above: Counts


def count(old: Counted, tick: Tick) -> Counted:
    """The counts after a tick. A sample that is not valid leaves CUSUM and time above unchanged: it is no
    evidence for either side."""
    x, usable = tick.x, tick.usable
    exceeds = x > tick.thresholds
    dropped = tick.uncounted < ABSENT
    with np.errstate(invalid="ignore"):
        moved = np.fmax(old.cusum + (x - tick.baseline) - tick.slacks, np.float32(0.0))  # 0 without a baseline
    return Counted(
        np.where(usable, moved, old.cusum),
        (old.time_above + tick.seconds * exceeds) * (exceeds | ~usable),
        old.valid + usable - (tick.leaving < ABSENT),
        old.counted + usable - dropped,
        old.above + exceeds - (dropped & (tick.uncounted > tick.thresholds)),
    )


class Member(NamedTuple):
    """A frame and the inputs that it advances; ``means`` float32 (S, E): averages of the columns in frames
    before the frame, NaN if there were none."""

    item: Item
    inputs: InputsState
    begun: Begun
    means: Floats


class _Group(NamedTuple):
    """Frames with one plan: positions of the rows of each frame, their kept state, and their contents."""

    members: list[Member]
    spans: list[tuple[int, int]]
    kept: list[Arrays]
    raw: Floats
    codes: Codes
    baseline: Floats


def advance(members: list[Member]) -> dict[int, bytes]:
    """Process the samples of frames, with every state at most once. Returns, by the id of their inputs, the commands
    that write their rows of recent values."""
    groups: dict[int, list[Member]] = {}
    for member in members:
        groups.setdefault(id(member.inputs.plan), []).append(member)
    rows: dict[int, bytes] = {}
    for group in groups.values():
        rows |= _advance_group(group[0].inputs.plan, group)
    return rows


def _advance_group(plan: Plan, members: list[Member]) -> dict[int, bytes]:
    sizes = [member.item.frame.entities for member in members]
    seconds = np.repeat([member.begun.seconds for member in members], sizes).astype(np.float32)
    group = _take(plan, members, list(pairwise([0, *np.cumsum(sizes).tolist()])))
    usable = ((group.codes & validity.CODE_MASK) == validity.VALID) & (np.abs(group.raw) <= LARGEST)
    group.codes[~usable & ((group.codes & validity.CODE_MASK) == validity.VALID)] = validity.RANGE
    x = np.where(usable, group.raw, np.float32(np.nan))
    leaving = _replace(group, plan, np.where(usable, group.raw, ABSENT))
    old = np.concatenate([kept.figures[CUSUM : TIME_ABOVE + 1] for kept in group.kept], axis=2)
    counts = np.concatenate([kept.counts for kept in group.kept], axis=2).astype(np.int16)
    parameters = plan.thresholds[:, None], plan.slacks[:, None]
    counted = count(Counted(*old, *counts), Tick(x, usable, *leaving, group.baseline, seconds, *parameters))
    _burst(group, plan, x, usable, counted, seconds)
    figures = [
        counted.cusum,
        counted.time_above,
        *_plateau(group, plan, x, usable, counted),
        *_order(group, plan, counted),
    ]
    for kept, (first, end) in zip(group.kept, group.spans, strict=True):
        kept.figures[...] = [figure[:, first:end] for figure in figures]
        kept.counts[...] = [each[:, first:end] for each in counted[2:]]
    return {id(member.inputs): _row(group, place) for place, member in enumerate(members)}


def _take(plan: Plan, members: list[Member], spans: list[tuple[int, int]]) -> _Group:
    """Samples of the columns and the averages before them; those of derived columns are advanced."""
    items = [member.item for member in members]
    kept = [_grow_older(member) for member in members]
    values = np.frombuffer(b"".join([item.frame.values for item in items]), "<f4").reshape(-1, plan.metrics)
    joined = join_codes(items)
    codes = np.zeros(values.shape, np.uint8) if joined is None else joined.reshape(values.shape)
    sources = list(plan.sources)
    raw, raw_codes = values.T[sources], codes.T[sources]
    baseline = np.concatenate([member.means for member in members], axis=1)
    if not plan.derived:
        return _Group(members, spans, kept, raw, raw_codes, baseline)
    nothing = np.full(len(values), np.float32(np.nan)), np.full(len(values), validity.MISSING, np.uint8)
    made = []
    for how, parts in plan.derived:
        columns = [nothing if part == NO_PART else (values[:, part], codes[:, part]) for part in parts]
        made.append(derive(how, [value for value, _ in columns], [code for _, code in columns]))
    x, x_codes = np.array([value for value, _ in made]), np.array([code for _, code in made])
    valid = (x_codes & validity.CODE_MASK) == validity.VALID
    before = np.concatenate([each.derived for each in kept], axis=2)
    dt = np.repeat([member.begun.dt for member in members], [end - first for first, end in spans])
    after = smooth(
        Averages(*before[MEAN:]), np.where(valid, x, np.float32(np.nan)), dt, plan.taus[len(sources) :, None]
    )
    for each, (first, end) in zip(kept, spans, strict=True):
        each.derived[...] = [plane[:, first:end] for plane in (x, *after)]
        each.codes[...] = x_codes[:, first:end]
    joined_codes = np.concatenate((raw_codes, x_codes))
    return _Group(
        members, spans, kept, np.concatenate((raw, x)), joined_codes, np.concatenate((baseline, before[MEAN]))
    )


def _grow_older(member: Member) -> Arrays:
    kept = member.inputs.arrays()
    new = kept.seen == 0
    kept.since[new] = member.item.frame.wall
    older = np.minimum(kept.seen.astype(np.int64) + 1 + member.begun.missing, member.inputs.plan.window)
    kept.seen[...] = np.where(new, 1, older)
    return kept


def _replace(group: _Group, plan: Plan, x: Floats) -> tuple[Floats, Floats]:
    """Put new samples into the windows; returns the replaced ones, and those leaving k of n, (C, R)."""
    leaving, uncounted = np.empty_like(x), np.empty_like(x)
    for member, kept, (first, end) in zip(group.members, group.kept, group.spans, strict=True):
        step, n = member.inputs.step, plan.window
        uncounted[:, first:end] = kept.window[:, (step - plan.counted) % n]
        place = kept.window[:, step % n]
        leaving[:, first:end] = place
        place[...] = x[:, first:end]
    return leaving, uncounted


def _plateau(
    group: _Group, plan: Plan, x: Floats, usable: npt.NDArray[np.bool_], counted: Counted
) -> tuple[Floats, ...]:
    if not plan.plateau:
        return ()
    lately = push(np.concatenate([kept.lately for kept in group.kept], axis=2), x, usable)
    for kept, (first, end) in zip(group.kept, group.spans, strict=True):
        kept.lately[...] = lately[:, :, first:end]
    return extremes(lately, counted.valid)


def _burst(
    group: _Group, plan: Plan, x: Floats, usable: npt.NDArray[np.bool_], counted: Counted, seconds: Floats
) -> None:
    column = plan.bursting
    if column is None:
        return
    for member, kept, (first, end) in zip(group.members, group.kept, group.spans, strict=True):
        rows = slice(first, end)
        slot = np.full(end - first, bursts.slot_of(member.item.frame.monotonic))
        dt = np.full(end - first, member.begun.dt, np.float32)
        step = bursts.Step(
            x[column, rows], usable[column, rows], counted.above[column, rows], plan.counted, plan.thresholds[column],
            seconds[rows], dt, slot,
        )  # fmt: skip
        bursts.advance(kept.bursts, step)


def _order(group: _Group, plan: Plan, counted: Counted) -> tuple[Floats, ...]:
    if not plan.order:
        return ()
    windows = np.concatenate([kept.window for kept in group.kept], axis=2).transpose(0, 2, 1)
    found = order_statistics(windows.reshape(-1, plan.window), counted.valid.reshape(-1).astype(np.intp))
    return tuple(figure.reshape(counted.valid.shape) for figure in found)


def _row(group: _Group, place: int) -> bytes:
    """Command that writes the row of recent values of one frame."""
    member, (first, end), slots = group.members[place], group.spans[place], group.kept[place].slots
    inputs, frame = member.inputs, member.item.frame
    raw = np.zeros((len(group.raw), inputs.ring.capacity), np.float32)
    codes = np.full(raw.shape, recent.GONE, np.uint8)
    raw[:, slots] = group.raw[:, first:end]
    found = group.codes[:, first:end]
    plain = found & validity.CODE_MASK
    codes[:, slots] = np.where(plain == validity.VALID, found, plain)  # no code is mistaken for GONE
    return inputs.ring.row(
        inputs.step, recent.encode_row(inputs.step, frame.epoch, frame.wall, frame.monotonic, raw, codes)
    )
