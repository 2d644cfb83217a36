"""Restore of a partition's decision inputs: figures from records, windows.

Windows come from the rings.

Absent or damaged inputs, or those of another configuration, are skipped, and the figures restart with
``since``; missing recent values reduce the valid samples of their window, but never make them wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError, TemporaryError
from acquisition.link.resp import Connection, ReplyError, raise_for
from acquisition.wire.records import inputs as wire
from acquisition.wire.records import recent, smoothed
from acquisition.wire.records.recent import Head
from acquisition.wire.records.smoothed import SmoothedRecord
from filters.kernels.numpy_step import LARGEST
from filters.worker.inputs.growing import Also
from filters.worker.inputs.order import ABSENT
from filters.worker.inputs.plan import Plan
from filters.worker.inputs.ring import Ring
from filters.worker.inputs.state import InputsState
from filters.worker.partitions.partition import Partition
from filters.worker.states.state import State

_MOST_STEPS = 1 << 62
_LOW_HALF = 0xFFFFFFFF
_MOST_SLOTS = 1 << 18  #: a larger frame has no inputs; twice as many entities may have come and gone


class Found(NamedTuple):
    """A state with averages continued from ``record``, decoded from ``data``."""

    state: State
    record: SmoothedRecord
    data: bytes


class _Begun(NamedTuple):
    """Inputs continued from a record, and the description of its ring."""

    inputs: InputsState
    record: SmoothedRecord
    key: str
    head: Head


def restore(partition: Partition, found: Sequence[Found], connection: Connection, damage: list[str]) -> None:
    """Load the inputs of states as far as the shard holds them; adds damaged ones to ``damage``.

    Raises ShardError, TemporaryError and PermissionRefused.
    """
    wanted = [(each, inputs) for each in found if (inputs := _figures(partition, each, damage)) is not None]
    begun = _begin_rings(wanted, connection, damage)
    commands = [command for each in begun for command in _commands(each)]
    replies = iter(read_values(connection, commands))
    for each in begun:
        slots, *pieces = [next(replies) for _ in _commands(each)]
        _fill(each, slots, pieces, partition.also)
    for (state, record, _), inputs in wanted:
        inputs.recount(inputs.step)
        inputs.recall(inputs.step)
        state.plan_inputs(inputs, record.interval)


def _figures(partition: Partition, found: Found, damage: list[str]) -> InputsState | None:
    """Inputs with the figures of a record; windows are still empty. None if it has none, or others."""
    state, record, data = found
    section = smoothed.section(data, smoothed.unpack_head(data))
    if not section or state.names is None:
        return None
    plan = partition.settings.plan(state.resource_set, state.names.metrics, record.interval)
    if plan is None:
        return None
    try:
        decoded = wire.decode(section, record.ids.size)
    except FrameError as error:
        damage.append(f"the decision inputs of {state.member.decode()} are damaged: {error}; they restart")
        return None
    if not _fits(decoded, plan):
        return None
    version = partition.settings.versions.recent
    inputs = InputsState(plan, Ring(state.recent_key, state.host, state.resource_set, plan, version))
    inputs.restore(record.epoch, record.monotonic, record.ids.tobytes(), section)
    return inputs


def _fits(section: wire.Section, plan: Plan) -> bool:
    """Whether a section matches this worker's configuration."""
    head = section.head
    return (
        head.first <= head.step < _MOST_STEPS
        and head._replace(step=0, first=0) == plan.head
        and section.names == plan.names
        and section.sources.tolist() == list(plan.sources)
        and bool((section.thresholds == plan.thresholds).all())
        and bool((section.slacks == plan.slacks).all())
    )


def _begin_rings(
    wanted: Sequence[tuple[Found, InputsState]], connection: Connection, damage: list[str]
) -> list[_Begun]:
    """Inputs with a ring in the shard that matches this worker's configuration."""
    commands = [("GETRANGE", found.state.recent_key, 0, recent.HEADER.size - 1) for found, _ in wanted]
    begun = []
    for (found, inputs), data in zip(wanted, read_values(connection, commands), strict=True):
        state, record, plan = found.state, found.record, inputs.plan
        if not data:
            continue
        try:
            head = recent.unpack_head(data)
        except FrameError as error:
            refuse_newer(state.recent_key, error)
            damage.append(f"{state.recent_key} is damaged: {error}; its windows hold less")
            continue
        made = recent.make_head(
            state.host, state.resource_set, record.interval, plan.names, len(plan.derived), head.capacity, plan.depth
        )
        if data == recent.HEADER.pack(*made._replace(version=head.version)) and head.capacity <= _MOST_SLOTS:
            begun.append(_Begun(inputs, record, state.recent_key, head))
    return begun


def _spans(each: _Begun) -> list[range]:
    """The steps with rows for the windows, in one or two consecutive pieces of the ring."""
    inputs, depth = each.inputs, each.head.depth
    first, end = max(inputs.first, inputs.step - inputs.plan.window + 1), inputs.step + 1
    turn = end - end % depth
    return [range(first, turn), range(turn, end)] if first < turn < end else [range(first, end)]


def _commands(each: _Begun) -> list[tuple[Any, ...]]:
    """Commands that read a ring's slots and rows."""
    at, head = each.head.places, each.head
    rows = [(head.row_at(span[0]), head.row_at(span[-1]) + at.row_size - 1) for span in _spans(each)]
    return [("GETRANGE", each.key, *span) for span in ((at.slots, at.seeds - 1), *rows)]


def _fill(each: _Begun, slots_data: bytes | None, pieces: Sequence[bytes | None], also: Also) -> None:
    """Set the slots, and put the values of rows into the windows of entities present without a break since."""
    inputs, record, head = each.inputs, each.record, each.head
    row_dtype = recent.row_dtype(head.columns, head.capacity)
    spans = _spans(each)
    whole = [len(span) * row_dtype.itemsize == len(piece or b"") for span, piece in zip(spans, pieces, strict=True)]
    if slots_data is None or len(slots_data) != head.capacity * recent.SLOT.size or not all(whole):
        return
    table = np.frombuffer(slots_data, recent.SLOT_DTYPE)
    slots = inputs.ring.restore(head, table, record.ids, inputs.step, also)
    if slots is None:
        return
    kept, since = inputs.arrays(), table["first"][slots]
    kept.slots[...] = slots
    life = record.epoch & _LOW_HALF
    for span, piece in zip(spans, pieces, strict=True):
        for step, row in zip(span, np.frombuffer(piece or b"", row_dtype), strict=True):
            if (row["step"], row["life"]) == (step & _LOW_HALF, life):
                known = (inputs.step - step < kept.seen.astype(np.int64)) & (since <= step)
                kept.window[:, step % inputs.plan.window, known] = _values(row["raw"][:, slots[known]])


def _values(raw: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Raw values in the format of windows."""
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(raw) <= LARGEST, raw, ABSENT)


def refuse_newer(key: str, error: FrameError) -> None:
    """Raise TemporaryError for a record written by a newer filter: it is not damage, and its averages must continue."""
    if error.reason == "newer":
        raise TemporaryError(f"{key}: {error}; a filter of that version is required") from error


def read_values(connection: Connection, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Replies to commands; None for keys that are absent or of another type: they will be overwritten.

    Raises ShardError, TemporaryError and PermissionRefused.
    """
    return [
        None
        if isinstance(reply, ReplyError) and str(reply).startswith("WRONGTYPE")
        else raise_for(reply, connection.address)
        for reply in (connection.pipeline(list(commands)) if commands else ())
    ]
