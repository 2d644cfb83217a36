"""Read a partition back from its shard: cursor, positions, averages, names.

Damaged parts restart without blocking the others. An error (the slot is migrating to another
shard, the shard is loading) is not damage: treated as an absent value, it would make averages restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acquisition.errors import FrameError
from acquisition.link.resp import Connection, ReplyError, pack, raise_for
from acquisition.wire import keys, position
from acquisition.wire.position import Position
from acquisition.wire.records import smoothed
from acquisition.wire.records.smoothed import SmoothedRecord
from acquisition.wire.rejected import LimitError
from filters.kernels.step import Kernel
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.restore_inputs import Found, read_values, refuse_newer
from filters.worker.partitions.restore_inputs import restore as restore_inputs
from filters.worker.states.name_table import learn
from filters.worker.states.state import State

_TOGETHER = 64  #: resource sets read in one round trip


def restore(partition: Partition, connection: Connection, kernels: tuple[Kernel, ...]) -> list[str]:
    """Fill a new partition; returns a list of damage, each with its key.

    A concurrent commit by another worker is noticed by the WATCH before the next commit:
    the commit id is read first. Raises ShardError, TemporaryError and PermissionRefused.
    """
    damage: list[str] = []
    committed, rows, dormant = _own_keys(partition, connection, damage)
    for member, data in zip(dormant[::2], dormant[1::2], strict=True):
        _decoded(f"{partition.sets.dormant.key} field {member[:40]!r}", data)
    partition.sets.dormant.load(dormant)
    _restore_commit(partition, committed, damage)
    states = [
        state
        for member, data in zip(rows[::2], rows[1::2], strict=True)
        if (state := _restore_position(partition, member, data, damage)) is not None
    ]
    for first in range(0, len(states), _TOGETHER):
        _restore_records(partition, states[first : first + _TOGETHER], connection, kernels, damage)
    return damage


def _own_keys(
    partition: Partition, connection: Connection, damage: list[str]
) -> tuple[bytes | None, list[bytes], list[bytes]]:
    """The commit, the positions, those of dormant sets; a key of another type is foreign and is removed."""
    commands: list[tuple[Any, ...]] = [
        ("GET", keys.commit(partition.tag)),
        ("HGETALL", keys.applied(partition.tag)),
        ("HGETALL", partition.sets.dormant.key),
        ("XLEN", keys.raw(partition.tag)),
        ("XLEN", keys.rejected(partition.tag)),
        ("HLEN", keys.readers(partition.tag)),
    ]
    replies = connection.pipeline(commands)
    for index, (reply, command) in enumerate(zip(replies, commands, strict=True)):
        if isinstance(reply, ReplyError) and str(reply).startswith("WRONGTYPE"):
            connection.call("DEL", command[1])
            damage.append(f"{command[1]} had a wrong type: removed")
            replies[index] = None
        raise_for(replies[index], connection.address)
    return replies[0], replies[1] or [], replies[2] or []


def _restore_commit(partition: Partition, value: bytes | None, damage: list[str]) -> None:
    if value is None:
        return
    try:
        partition.resume(*position.decode_commit(value)[:3])
    except FrameError as error:
        partition.resume(position.id_of(value))  # positions prevent double counting of entries read again
        damage.append(f"{keys.commit(partition.tag)} is damaged: {error}; reading its stream from the start")


def _restore_position(partition: Partition, member: bytes, data: bytes, damage: list[str]) -> State | None:
    """The state of a field of the applied positions; None if it has no averages to continue."""
    applied = keys.applied(partition.tag)
    where = f"{applied} field {member[:40]!r}"
    named = keys.parse_member(member)
    if named is None or not partition.sets.owns(named[0]):
        damage.append(f"{where} is not a resource set of this partition: removed")
        partition.also(pack(("HDEL", applied, member)))
        return None
    try:
        state = partition.sets.add(*named)
    except LimitError as error:  # stored before this limit existed
        damage.append(f"removed {where}: {error}")
        partition.also(pack(("HDEL", applied, member)))
        return None
    found = _decoded(where, data)
    if isinstance(found, FrameError):
        damage.append(f"{where} is damaged: {found}; its probe resends its frames")
        return None
    state.track.restore(found)
    return state


def _decoded(where: str, data: bytes) -> Position | FrameError:
    """A position, or its error. Raises TemporaryError if a newer filter wrote it."""
    try:
        return position.decode(data)
    except FrameError as error:
        refuse_newer(where, error)
        return error


def _restore_records(
    partition: Partition,
    states: Sequence[State],
    connection: Connection,
    kernels: tuple[Kernel, ...],
    damage: list[str],
) -> None:
    names = [_record_key(partition, state) for state in states]
    commands = [("GET", key) for state, name in zip(states, names, strict=True) for key in (name, state.names_key)]
    replies = read_values(connection, commands)
    found = []
    for state, name, data, table in zip(states, names, replies[::2], replies[1::2], strict=True):
        try:
            record = None if data is None else _restore_record(state, data, kernels)
            partition.sets.sizes.note(state.host, state.resource_set, len(state.ids) // 8)
            if record is not None:
                found.append(Found(state, record, data))
        except FrameError as error:
            refuse_newer(name, error)
            damage.append(f"{name} is damaged: {error}; its averages restart")
        try:
            if table is not None:
                partition.sets.name(state, learn(None, table))
        except FrameError as error:
            damage.append(f"{state.names_key} is damaged: {error}; requested from its probe")
        if state.names is None:
            state.ask_for_table()
    restore_inputs(partition, found, connection, damage)


def _record_key(partition: Partition, state: State) -> str:
    slot = state.track.tick % partition.settings.keep_ticks
    return keys.smoothed(partition.tag, state.host, state.resource_set, slot)


def _restore_record(state: State, data: bytes, kernels: tuple[Kernel, ...]) -> SmoothedRecord | None:
    """The record from which a state continues; None if it is not of the tick applied last."""
    record, track = smoothed.decode(data), state.track
    if (record.epoch, record.tick) != (track.epoch, track.tick) or record.sequence > track.sequence:
        return None
    state.restore(record, kernels)
    return record
