"""Numbering of frames: epoch, sequence, floor and count of earlier samples."""

from __future__ import annotations

import time

from acquisition.errors import FrameError
from acquisition.model.metric import schema_hash
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.frames.window import SendWindow
from acquisition.wire import frame, table
from acquisition.wire.frame import Frame
from acquisition.wire.position import Position
from acquisition.wire.table import Table

_NEAR = 64  #: number of newest frames compared with the applied one


def append(outbox: Outbox, window: SendWindow, content: Frame) -> int:
    """Number and store a frame; returns its sequence number."""
    size = frame.HEADER_SIZE + len(content.ids) + len(content.values) + len(content.codes) + len(content.payload)
    at = outbox.make_room(size)
    numbered = content._replace(epoch=window.epoch, sequence=window.last + 1, floor=window.floor, made=window.made)
    outbox.append(window, content.samples, frame.encode(numbered), at)
    return numbered.sequence


def append_table(outbox: Outbox, window: SendWindow, names: Table, tick: int, wall: float, monotonic: float) -> int:
    """Number and store a table frame, and note it when it is complete; returns its sequence number."""
    content = Frame(
        frame.KIND_TABLE,
        schema_hash(names.metrics),
        outbox.host,
        window.resource_set,
        0,
        0,
        names.interval,
        0,
        0,
        0,
        0,
        tick,
        wall,
        monotonic,
        payload=table.encode(names),
    )
    sequence = append(outbox, window, content)
    if names.complete:
        window.note_table(sequence)
    return sequence


def append_ends(outbox: Outbox) -> None:
    """Announce in every resource set that the probe stops in order: if its ring is gone at the next start, as
    after a reboot of the host, nothing is missing."""
    for window in list(outbox.windows.values()):
        content = Frame(
            frame.KIND_END, 0, outbox.host, window.resource_set, 0, 0, 1.0, 0, 0, 0, 0, 0, time.time(), time.monotonic()
        )
        append(outbox, window, content)


def renumber(outbox: Outbox, window: SendWindow, applied: int) -> None:
    """Start a new epoch with the frames that the filter, having applied ``applied``, cannot have seen from this
    process: see ``SendWindow.is_ahead`` and ``is_doubled``."""
    seen = applied if window.synchronized else window.recovered
    unseen = [frame.decode(data) for data in _frames_after(outbox, window, seen)]
    outbox.forget(window)
    window.restart(max(time.time_ns(), window.epoch + 1))
    window.synchronize(None)
    for content in unseen:
        sequence = append(outbox, window, content)
        if content.kind == frame.KIND_TABLE and table.decode(content.payload).complete:
            window.note_table(sequence)


def is_anothers(outbox: Outbox, window: SendWindow, position: Position | None) -> bool | None:
    """Whether the frame last applied by the filter is not from this process although it has a number of this
    window's epoch: it was sampled at another moment. None if unknown, or checked before."""
    if position is None or position.epoch != window.epoch or position.sequence <= window.applied:
        return None
    for index in range(outbox.end - 1, max(outbox.first, outbox.end - _NEAR) - 1, -1):
        entry = outbox.entry(index)
        if entry.window is window and entry.sequence <= position.sequence:
            return entry.sequence == position.sequence and _is_other(outbox.read(index), position)
    return None


def _is_other(data: bytes, position: Position) -> bool | None:
    """Tables and tombstones do not change the time of a position; and frames damaged in the ring prove nothing."""
    try:
        held = frame.decode(data)
    except FrameError:
        return None
    return held.wall != position.wall if held.kind == frame.KIND_SAMPLES else None


def _frames_after(outbox: Outbox, window: SendWindow, sequence: int) -> list[bytes]:
    """The held frames of a window that are newer than ``sequence`` and were not shed."""
    frames = []
    for index in range(outbox.first, outbox.end):
        entry = outbox.entry(index)
        if entry.window is window and entry.sequence > sequence and not entry.shed:
            frames.append(outbox.read(index))
    return frames
