"""Read the decision inputs of a partition back: figures from the record, windows from the recent values.

Whatever is absent, damaged or made by another configuration is left out, and the figures start anew with
``since``; recent values that are missing make their window hold fewer valid samples, never wrong ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from acquisition.errors import FrameError, TemporaryError
from acquisition.link.resp import Connection, ReplyError, raise_for
from acquisition.model import codes as validity
from acquisition.wire import inputs as wire
from acquisition.wire import keys, recent
from acquisition.wire.inputs import InputsRecord
from acquisition.wire.recent import Row
from filters.kernels.numpy_step import LARGEST
from filters.worker.inputs.order import ABSENT
from filters.worker.inputs.plan import Plan
from filters.worker.inputs.state import InputsState
from filters.worker.partition import Partition
from filters.worker.state import State

_MOST_STEPS = 1 << 62


def restore(partition: Partition, states: Sequence[State], connection: Connection, damage: list[str]) -> None:
    """Give ``states`` their inputs as far as the shard holds them; adds to ``damage`` what it holds damaged.

    Raises ShardError, TemporaryError and PermissionRefused.
    """
    settings = partition.settings.inputs
    if settings is None:
        return
    planned = [(state, settings.plan(state.resource_set, state.names.metrics)) for state in states if state.names]
    wanted = [(state, plan) for state, plan in planned if plan is not None]
    found = _records(partition, wanted, connection, damage)
    rows = _rows(partition, found, connection, damage)
    layouts = _older_layouts(partition, found, rows, connection)
    for number, (state, inputs, record) in enumerate(found):
        ids = {layout: known for (owner, layout), known in layouts.items() if owner == number}
        ids[record.head.layout] = record.ids
        _fill(inputs, record, rows[number], ids)
        state.plan_inputs(inputs)


def _records(
    partition: Partition, wanted: Sequence[tuple[State, Plan]], connection: Connection, damage: list[str]
) -> list[tuple[State, InputsState, InputsRecord]]:
    """States whose record fits, with what it says; windows are still empty."""
    commands: list[tuple[Any, ...]] = []
    for state, _ in wanted:
        slot = state.track.tick % partition.settings.keep_ticks
        commands.append(("GET", keys.inputs(partition.tag, state.host, state.resource_set, slot)))
        commands.append(("HKEYS", _recent(partition, state)))
    replies = read_values(connection, commands)
    found = []
    for (state, plan), data, fields, command in zip(wanted, replies[::2], replies[1::2], commands[::2], strict=True):
        if data is None:
            continue
        try:
            record = wire.decode(data)
        except FrameError as error:
            refuse_newer(str(command[1]), error)
            damage.append(f"{command[1]} is damaged: {error}; its figures start anew")
            continue
        if _fits(record, state, plan):
            found.append((state, _begun(plan, record, fields), record))
    return found


def _fits(record: InputsRecord, state: State, plan: Plan) -> bool:
    """Whether a record is of the newest applied tick, and was made as this worker would have made it."""
    head, track = record.head, state.track
    return (
        (head.host, head.resource_set) == (state.host, state.resource_set)
        and (head.epoch, head.tick) == (track.epoch, track.tick)
        and head.sequence <= track.sequence
        and max(head.first, head.layout) <= head.step < _MOST_STEPS
        and (head.window, head.counted, head.depth) == (plan.window, plan.counted, plan.depth)
        and record.names == plan.names
        and head.derived == len(plan.derived)
        and bool((record.thresholds == plan.thresholds).all())
        and bool((record.slacks == plan.slacks).all())
    )


def _begun(plan: Plan, record: InputsRecord, fields: Sequence[bytes] | None) -> InputsState:
    """``fields`` of the recent values; None: something else lies there."""
    layouts = [recent.layout_of(field) for field in fields or ()]
    inputs = InputsState(plan)
    inputs.restore(record, sorted(layout for layout in layouts if layout is not None))
    if fields is not None:
        inputs.rows_are_ours()
    return inputs


def _rows(
    partition: Partition,
    found: Sequence[tuple[State, InputsState, InputsRecord]],
    connection: Connection,
    damage: list[str],
) -> list[list[Row]]:
    """The rows that belong into each window."""
    commands = [
        ("HMGET", _recent(partition, state), *(step % record.head.depth for step in _steps(record)))
        for state, _, record in found
    ]
    rows = []
    for (_, _, record), command, values in zip(found, commands, read_values(connection, commands), strict=True):
        read: list[Row] = []
        for step, data in zip(_steps(record), values or (), strict=False):
            try:
                row = None if data is None else recent.decode_row(data)
            except FrameError as error:
                refuse_newer(str(command[1]), error)
                damage.append(f"{command[1]} is damaged: {error}; its windows hold less")
                continue
            if row is not None and (row.step, row.epoch) == (step, record.head.epoch):
                read.append(row)
        rows.append(read)
    return rows


def _older_layouts(
    partition: Partition,
    found: Sequence[tuple[State, InputsState, InputsRecord]],
    rows: Sequence[list[Row]],
    connection: Connection,
) -> dict[tuple[int, int], np.ndarray[Any, np.dtype[np.uint64]]]:
    """The entities of rows that are not those of the record, by number in ``found`` and layout."""
    missing = [
        (number, layout)
        for number, (_, _, record) in enumerate(found)
        for layout in sorted({row.layout for row in rows[number]} - {record.head.layout})
    ]
    commands = [
        ("HGET", _recent(partition, found[number][0]), recent.layout_field(layout)) for number, layout in missing
    ]
    layouts = {}
    for key, data in zip(missing, read_values(connection, commands) if commands else (), strict=True):
        try:
            layout = None if data is None else recent.decode_layout(data)
        except FrameError:
            continue
        if layout is not None and layout.names == found[key[0]][2].names:
            layouts[key] = layout.ids
    return layouts


def _fill(
    inputs: InputsState,
    record: InputsRecord,
    rows: Sequence[Row],
    ids: Mapping[int, np.ndarray[Any, np.dtype[np.uint64]]],
) -> None:
    """Put the values of ``rows`` into the windows of those who were there without a break since."""
    places: dict[int, tuple[Any, Any]] = {}
    for row in rows:
        if row.layout not in places:
            _, here, there = np.intersect1d(record.ids, ids.get(row.layout, ()), return_indices=True)
            places[row.layout] = here, there
        here, there = places[row.layout]
        if row.raw.shape[1] <= (there.max() if there.size else -1) or row.raw.shape[0] != len(record.names):
            continue
        valid = ((row.codes & validity.CODE_MASK) == validity.VALID) & (np.abs(row.raw) <= LARGEST)
        known = record.head.step - row.step < record.seen[here].astype(np.int64)
        values = np.where(valid, row.raw, ABSENT)
        inputs.window[:, row.step % inputs.plan.window, here[known]] = values[:, there[known]]
    inputs.recount(inputs.step)
    inputs.recall(inputs.step)


def refuse_newer(key: str, error: FrameError) -> None:
    """Raise TemporaryError for a record that a newer filter wrote: it is no damage, and its averages must go on."""
    if error.reason == "newer":
        raise TemporaryError(f"{key}: {error}; a filter of that version has to go on with it") from error


def _steps(record: InputsRecord) -> range:
    head = record.head
    return range(max(head.first, head.step - head.window + 1), head.step + 1)


def _recent(partition: Partition, state: State) -> str:
    return keys.recent(partition.tag, state.host, state.resource_set)


def read_values(connection: Connection, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The replies to commands; None for what is absent or of another type: it will be written over.

    Raises ShardError, TemporaryError and PermissionRefused.
    """
    return [
        None
        if isinstance(reply, ReplyError) and str(reply).startswith("WRONGTYPE")
        else raise_for(reply, connection.address)
        for reply in (connection.pipeline(list(commands)) if commands else ())
    ]
