"""Recovery of records and numbers that a ring holds from an earlier process."""

from __future__ import annotations

from typing import NamedTuple

from acquisition.errors import FrameError
from acquisition.outbox.frames.index import Entry
from acquisition.outbox.frames.ring import FileRing, Record, Recovery, space
from acquisition.outbox.frames.window import SendWindow
from acquisition.wire import frame
from acquisition.wire.frame import Frame


class Held(NamedTuple):
    """Windows and entries, oldest first; ``head`` is the place of the next record, with number ``serial``."""

    windows: dict[int, SendWindow]
    entries: list[Entry]
    head: int
    serial: int


class Start(NamedTuple):
    """Recovered state of a ring: ``found`` as for ``Outbox``, ``host`` 0 if it holds no frames of any host."""

    found: str
    host: int
    held: Held
    faults: tuple[str, ...]


def open_ring(ring: FileRing, now: float) -> Start:
    """Recover the usable part, else recreate the ring. Raises CannotCreateError if there is no room for it."""
    recovery = ring.recover()
    faults: tuple[str, ...] = () if recovery.whole else ("ring_damaged",)
    found, held = recovery.found, Held({}, [], 0, 1)
    try:
        held = _take_up(recovery, ring, now)
    except FrameError:
        found = "damaged"
    if found == "recovered":
        return Start(found, recovery.host, held, faults)
    if found != "created":
        faults += (f"ring_{found}",)
    ring.create(0)
    return Start(found, 0, held, faults)


def _take_up(recovery: Recovery, ring: FileRing, now: float) -> Held:
    """Continue from what an earlier process left. Raises FrameError if a record holds no frame."""
    windows: dict[int, SendWindow] = {}
    entries: list[Entry] = []
    for record in recovery.records:
        held = frame.decode(ring.read(record.offset, record.size))
        _restore(record, held, now, windows, entries)
    for numbers in recovery.ledger:
        window = windows.get(numbers.resource_set)
        if window is None:
            windows[numbers.resource_set] = SendWindow(*numbers)
        elif window.epoch == numbers.epoch and window.last < numbers.last:
            _forget(window, entries)  # newer frames were in memory only
            window.restart(*numbers[1:])
    if not recovery.records:
        return Held(windows, entries, 0, 1)
    newest = recovery.records[-1]
    return Held(windows, entries, newest.offset + space(newest.size), newest.serial + 1)


def _restore(record: Record, held: Frame, now: float, windows: dict[int, SendWindow], entries: list[Entry]) -> None:
    window = windows.get(held.resource_set)
    if window is None or window.epoch != held.epoch or window.last + 1 != held.sequence:
        if window is not None:  # a gap or a new epoch: earlier frames can no longer be applied
            _forget(window, entries)
        window = windows[held.resource_set] = SendWindow(held.resource_set, held.epoch, held.sequence - 1, held.made)
    made = held.made + held.samples
    window.recover(held.sequence, made, held.kind == frame.KIND_TOMBSTONE)
    at = min(record.at, now)
    entries.append(Entry(window, held.sequence, made, held.samples, record.offset, record.size, at, record.serial))


def _forget(window: SendWindow, entries: list[Entry]) -> None:
    for index, entry in enumerate(entries):
        if entry.window is window:
            entries[index] = entry._replace(window=None)
    window.drop_held()
