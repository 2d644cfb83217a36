"""Outbox: one ring of a probe's recent frames, confirmed or not.

The oldest frame is dropped first, when the ring is full or the frame is too old; the
``floor`` of a send window is exactly what is still here. With a path the ring is a
file (on tmpfs), so that a killed probe continues with its numbers and its frames;
without one it is memory (load generator, replay).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from acquisition import log
from acquisition.errors import CannotCreateError
from acquisition.outbox.frames.index import IN_MEMORY, Index
from acquisition.outbox.frames.recovery import open_ring
from acquisition.outbox.frames.ring import FileRing, MemoryRing, Numbers, RingDenied, space
from acquisition.outbox.frames.window import SendWindow

LOG = log.category("probe.outbox")
_MOST_BYTES = 1 << 17


class RecentFrames:
    """Frames by index: as many of the newest as fit within a bound, at least one. They are kept in the process until
    they have been sent once, so that the ring need not be read."""

    __slots__ = ("_bytes", "_frames")

    def __init__(self) -> None:
        self._frames: dict[int, bytes] = {}
        self._bytes = 0

    def add(self, index: int, data: bytes) -> None:
        """Keep a frame that is newer than all others."""
        frames = self._frames
        frames[index] = data
        self._bytes += len(data)
        while self._bytes > _MOST_BYTES and len(frames) > 1:
            self.take(next(iter(frames)))

    def take(self, index: int) -> bytes | None:
        """Remove and return the frame; None if it is not kept."""
        data = self._frames.pop(index, None)
        if data is not None:
            self._bytes -= len(data)
        return data


_MEMORY_LIMIT = 1 << 20  #: frames refused by a full tmpfs, kept in the process
_SLACK = 1 << 16


class Outbox:
    """``capacity_bytes`` and ``seconds`` bound what is held; ``path`` None keeps it in memory.

    Frames have a running ``index`` from ``first`` to ``end``. ``found`` is the fate of an
    older ring: ``memory created recovered version capacity damaged host``. ``faults`` counts
    ``ring_<found>`` for a ring that could not be used, ``ring_denied``, ``ring_write``, ``ring_large``,
    ``ring_deleted``. If others make the file unavailable (RingDenied), the ring is in memory: ``denied`` is then the
    reason. Raises CannotCreateError if the file is not available otherwise.
    """

    def __init__(
        self,
        path: str | None,
        capacity_bytes: int = 16 << 20,
        seconds: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.capacity = self.limit = capacity_bytes
        self.windows: dict[int, SendWindow] = {}
        self.bytes = 0
        self.faults: dict[str, int] = {}
        self._seconds = seconds
        self._clock = clock
        self._index = Index(self.windows)
        self.entry = self._index.entry  #: the entry with ``first <= index < end``; used for every frame
        self._recent = RecentFrames()
        self._memory: dict[int, bytes] = {}
        self._memory_bytes = 0
        self._head = self._host = 0
        self._serial = 1
        self.found = "memory"
        self._ring: FileRing | MemoryRing = MemoryRing()
        self.denied = ""
        if path is not None:
            try:
                self._ring = self._open(FileRing(path, capacity_bytes))
            except RingDenied as error:
                self._do_without(error)

    @property
    def host(self) -> int:
        """Id of the host of these frames, 0 before ``bind``."""
        return self._host

    @property
    def first(self) -> int:
        """The index of the oldest frame."""
        return self._index.first

    @property
    def end(self) -> int:
        """The index of the next frame."""
        return self._index.end

    @property
    def path(self) -> str | None:
        """The ring file, None in memory."""
        return self._ring.path

    def bind(self, host: int) -> None:
        """Set the host of these frames; a ring of another host is emptied."""
        if isinstance(self._ring, FileRing) and host != self._host:
            if self._host:
                self._set_aside()
                self.count("ring_host")
            try:
                self._ring.create(host)
            except RingDenied as error:
                self._ring.close()
                self._do_without(error)
        self._host = host

    def window(self, resource_set: int) -> SendWindow:
        """The send window of a resource set, created at the first call."""
        window = self.windows.get(resource_set)
        if window is None:
            window = self.windows[resource_set] = SendWindow(resource_set, time.time_ns())
        return window

    def make_room(self, size: int) -> float:
        """Drop frames that are too old, and those in the way of a frame of ``size`` bytes. Call it before the
        frame is encoded, because it moves floors. Returns the time, for ``append``."""
        now = self._clock()
        oldest = now - self._seconds
        while self._index.oldest_at < oldest:
            self._drop()
        self._place(space(size))
        return now

    def append(self, window: SendWindow, samples: int, data: bytes, at: float) -> None:
        """Store frame ``window.last + 1``, directly after ``make_room`` for it."""
        need = space(len(data))
        sequence = window.number(samples)
        if need > self.capacity:
            self._give_up(window, samples)
            return
        offset = self._write(window, need, at, data)
        serial = 0
        if offset >= 0:
            serial = self._serial
            self._serial += 1
            self._head = offset + need
        self._recent.add(self._index.end, data)
        self._index.add(window, sequence, window.made, samples, offset, len(data), at, serial)
        self.bytes += need

    def read(self, index: int) -> bytes:
        """The frame with ``first <= index < end``, as encoded."""
        data = self._recent.take(index)
        if data is not None:
            return data
        entry = self.entry(index)
        if entry.offset == IN_MEMORY:
            return self._memory[index]
        return self._ring.read(entry.offset, entry.size)

    def shed(self, index: int) -> None:
        """Never send this frame: the next one sent announces its loss."""
        entry = self.entry(index)
        window = entry.window
        assert window is not None
        self._index.put(index, entry._replace(shed=True))
        window.counts.shed(entry.samples)
        self._recent.take(index)

    def replace(self, index: int, data: bytes) -> None:
        """Replace a held frame by one without samples, no longer than the old one: it keeps its
        number, its samples count as dropped."""
        old = self.entry(index)
        new = old._replace(samples=0, size=len(data))
        self.bytes += space(len(data)) - space(old.size)
        self._recent.take(index)
        if old.offset == IN_MEMORY:
            self._memory_bytes += len(data) - len(self._memory[index])
            self._memory[index] = data
        else:
            oldest = self._index.oldest_place
            try:
                self._ring.write(old.offset, old.serial, oldest[1] if oldest else old.serial, old.at, data)
            except OSError:  # a later process gives it up again
                self.count("ring_write")
                new = new._replace(offset=IN_MEMORY)
                self._memory[index] = data
                self._memory_bytes += len(data)
        self._index.put(index, new)
        if old.window is not None:
            old.window.counts.drop(old.samples)

    def forget(self, window: SendWindow) -> None:
        """Forget the frames of a window; their room is reused in turn."""
        for index in range(self.first, self.end):
            entry = self.entry(index)
            if entry.window is window:
                self._index.put(index, entry._replace(window=None))
        window.drop_held()

    def check(self) -> None:
        """Detect a deleted ring file and write it again; call it now and then."""
        ring = self._ring
        if isinstance(ring, FileRing) and not ring.is_linked():
            self.count("ring_deleted")
            try:
                ring.relink()
            except CannotCreateError:
                self.count("ring_write")

    def close(self) -> None:
        """Close the ring; the file stays for the next start. Calling it again is harmless."""
        self._ring.close()

    def _open(self, ring: FileRing) -> FileRing:
        try:
            start = open_ring(ring, self._clock())
        except BaseException:
            ring.close()
            raise
        self.found, self._host = start.found, start.host
        for fault in start.faults:
            self.count(fault)
        held = start.held
        self.windows.update(held.windows)
        self._index.extend(held.entries)
        self.bytes = sum(space(entry.size) for entry in held.entries)
        self._head, self._serial = held.head, held.serial
        return ring

    def _do_without(self, error: RingDenied) -> None:
        """Keep frames in memory: they are lost when the process ends, but until then the host is visible."""
        self._ring, self.found, self.denied = MemoryRing(), "memory", str(error)
        self.count("ring_denied")

    def _set_aside(self) -> None:
        self.found = "host"
        self._index.clear()
        self.windows.clear()
        self.bytes = self._head = 0
        self._serial = 1

    def _place(self, need: int) -> None:
        """Move the head to where ``need`` bytes fit, dropping the frames in the way."""
        oldest = self._index.oldest_place
        if oldest is None:
            self._begin_lap()
        elif self._head + need > self.limit:
            self._drop_between(self._head, self.capacity)  # the rest of the lap before
            self._drop_between(0, need)
            self._begin_lap()
        elif self._head > oldest[0] >= self._head - oldest[0] + need + _SLACK:
            self._begin_lap()  # the start is free again: use it, so that the file stays small
        elif oldest[0] >= self._head:
            self._drop_between(self._head, self._head + need)

    def _drop_between(self, low: int, high: int) -> None:
        oldest = self._index.oldest_place
        while oldest is not None and low <= oldest[0] < high:
            self._drop()
            oldest = self._index.oldest_place

    def _begin_lap(self) -> None:
        self._head = 0
        self.limit = self.capacity  # a full disk may have room again

    def _write(self, window: SendWindow, need: int, at: float, data: bytes) -> int:
        """Write at the head; if the disk is full, use the part of the file that exists, then memory."""
        for _ in range(2):
            offset = self._head
            oldest = self._index.oldest_place
            try:
                self._ring.write(offset, self._serial, oldest[1] if oldest else self._serial, at, data)
                return offset
            except OSError:
                self.count("ring_write")
            if offset < need:
                break
            self.limit = offset
            self._place(need)
        while self._memory_bytes + need > _MEMORY_LIMIT and self._memory:
            self._drop()
        self._memory[self.end] = data
        self._memory_bytes += len(data)
        self._remember(window)  # a later process must not use its number again
        return IN_MEMORY

    def _drop(self) -> None:
        """Drop the oldest frame."""
        index = self._index.first
        entry = self._index.drop()
        self.bytes -= space(entry.size)
        self._recent.take(index)
        if entry.offset >= 0:
            self._ring.free(entry.offset)
        else:
            self._memory_bytes -= len(self._memory.pop(index))
        window = entry.window
        if window is not None:
            window.drop(entry.sequence, entry.made, entry.samples, entry.shed)
            if window.floor > window.last:
                self._remember(window)

    def _give_up(self, window: SendWindow, samples: int) -> None:
        """A frame larger than the ring: skip it and all earlier ones, so that its loss is counted."""
        self.count("ring_large")
        self.forget(window)
        window.counts.drop(samples)
        self._remember(window)

    def _remember(self, window: SendWindow) -> None:
        try:
            self._ring.remember(Numbers(window.resource_set, window.epoch, window.last, window.made))
        except OSError:
            self.count("ring_write")

    def count(self, fault: str) -> None:
        """Count a fault of a kind."""
        if LOG.informs:
            LOG.info("ring failed", kind=fault, ring=self.path, held_bytes=self.bytes)
        self.faults[fault] = self.faults.get(fault, 0) + 1
