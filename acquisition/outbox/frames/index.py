"""Index of an outbox: fixed-width records of all held frames in one buffer.

A probe holds ten minutes of frames and must stay small: with one object per frame, nine boxed numbers
in a dictionary, the index cost five times as much and grew for as long as the ring filled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple

from acquisition.outbox.frames.window import SendWindow

IN_MEMORY = -1  #: offset of a frame refused by a full tmpfs


class Entry(NamedTuple):
    """A held frame. ``made`` counts the samples up to and including it; ``window`` is None if
    it is forgotten: its numbers no longer count for anything."""

    window: SendWindow | None
    sequence: int
    made: int
    samples: int
    offset: int
    size: int
    at: float
    serial: int
    shed: bool = False  #: it will not be sent


#: offset, serial, at, sequence, made, samples, size, resource set, forgotten, shed; the set of a forgotten one is 0
_RECORD = Struct("<qQdQQIII??2x")
_SIZE = _RECORD.size
_FEWEST = 16
_INFINITY = float("inf")
_pack, _unpack = _RECORD.pack_into, _RECORD.unpack_from
_head_of = Struct("<qQd").unpack_from
_make = Entry._make  # half the cost of Entry(...), and it is called for every frame


class Index:
    """Entries with running numbers from ``first`` to ``end``; ``windows`` are those of the outbox, by resource set.

    ``oldest_at`` is when the first was stored, infinite if absent; ``oldest_place`` is offset and serial
    number of the oldest one in the ring, or None: both are needed at every frame.

    The record of entry ``i`` is number ``i`` modulo the capacity, a power of two. The buffer
    is doubled when it is full and never shrinks.
    """

    __slots__ = ("_buffer", "_mask", "_windows", "end", "first", "oldest_at", "oldest_place")

    def __init__(self, windows: Mapping[int, SendWindow]) -> None:
        self.first = self.end = 0
        self.oldest_at = _INFINITY
        self.oldest_place: tuple[int, int] | None = None
        self._windows = windows
        self._mask = _FEWEST - 1
        self._buffer = bytearray(_FEWEST * _SIZE)

    def add(
        self, window: SendWindow, sequence: int, made: int, samples: int, offset: int, size: int, at: float, serial: int
    ) -> None:
        """Add entry ``end``, which is neither forgotten nor shed; the arguments are the fields of ``Entry``.
        Raises struct.error for a number beyond its width; nothing is added then."""
        end = self.end
        if end - self.first > self._mask:
            self._double()
        _pack(
            self._buffer,
            (end & self._mask) * _SIZE,
            offset,
            serial,
            at,
            sequence,
            made,
            samples,
            size,
            window.resource_set,
            False,
            False,
        )
        self.end = end + 1
        if end == self.first:
            self.oldest_at = at
        if self.oldest_place is None and offset >= 0:
            self.oldest_place = offset, serial

    def extend(self, entries: Iterable[Entry]) -> None:
        """Add entries left by an earlier process, forgotten or not."""
        for entry in entries:
            if self.end - self.first > self._mask:
                self._double()
            self.end += 1
            self.put(self.end - 1, entry)

    def entry(self, number: int) -> Entry:
        """The entry with ``first <= number < end``; KeyError for any other number."""
        if not self.first <= number < self.end:
            raise KeyError(number)
        offset, serial, at, sequence, made, samples, size, owner, forgotten, shed = _unpack(
            self._buffer, (number & self._mask) * _SIZE
        )
        window = None if forgotten else self._windows[owner]
        return _make((window, sequence, made, samples, offset, size, at, serial, shed))

    def put(self, number: int, entry: Entry) -> None:
        """Replace the entry with ``first <= number < end``; KeyError for any other number."""
        if not self.first <= number < self.end:
            raise KeyError(number)
        window, sequence, made, samples, offset, size, at, serial, shed = entry
        owner = window.resource_set if window is not None else 0
        _pack(
            self._buffer,
            (number & self._mask) * _SIZE,
            offset,
            serial,
            at,
            sequence,
            made,
            samples,
            size,
            owner,
            window is None,
            shed,
        )
        self._look_at_oldest()

    def drop(self) -> Entry:
        """Remove and return the first entry; KeyError if empty."""
        first = self.first
        entry = self.entry(first)
        self.first = first = first + 1
        if first < self.end:
            offset, serial, at = _head_of(self._buffer, (first & self._mask) * _SIZE)
            if offset >= 0:
                self.oldest_at, self.oldest_place = at, (offset, serial)
                return entry
        self._look_at_oldest()
        return entry

    def clear(self) -> None:
        """Drop all entries; numbering continues."""
        self.first = self.end
        self._look_at_oldest()

    def _look_at_oldest(self) -> None:
        number, end = self.first, self.end
        self.oldest_at, self.oldest_place = _INFINITY, None
        while number < end:
            offset, serial, at = _head_of(self._buffer, (number & self._mask) * _SIZE)
            if number == self.first:
                self.oldest_at = at
            if offset >= 0:
                self.oldest_place = offset, serial
                return
            number += 1

    def _double(self) -> None:
        """Every entry keeps its place modulo the old capacity: both halves have it, one of them counts."""
        self._buffer *= 2
        self._mask = 2 * self._mask + 1
