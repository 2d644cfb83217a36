"""The ring of records that an outbox keeps: a file on tmpfs, or memory.

A file written with ``pwritev`` instead of a mapping: a full tmpfs is then an error
instead of SIGBUS, and its pages do not count as memory of the probe.

Layout (little-endian)::

    0      header   magic, version, capacity, host, CRC-32
    64     lap      where the oldest record was when the writer last went back to the start
    256    ledger   64 x (resource set, CRC-32, epoch, last, made): sets of which no frame is left
    4096   records  RECORD, frame; each aligned to 8 bytes

Records carry consecutive serial numbers. The record at the start of the area is always
the first of the current lap, so a reader follows the numbers from there to the newest
record, which says where the oldest one is. So one write stores a frame, a write that
was cut off ends the chain, and nothing else needs to be kept in step.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from acquisition.errors import CannotCreateError

MAGIC = b"SPLSRING"
VERSION = 1
RECORD_MAGIC = b"SPLR"
AREA = 4096
_HEADER = struct.Struct("<8sIIQQ")  # magic, version, zero, capacity, host
_LAP = struct.Struct("<QQQ")  # oldest serial, its offset, next serial
_LAP_AT = 64
_LEDGER = struct.Struct("<IIQQQ")  # resource set, CRC, epoch, last, made
_LEDGER_AT = 256
_LEDGER_SLOTS = 64
_RECORD_HEAD = struct.Struct("<4sI")  # magic, CRC of the rest
_RECORD_BODY = struct.Struct("<QQQdII")  # serial, oldest serial, oldest offset, time, frame size, frame CRC
RECORD_SIZE = _RECORD_HEAD.size + _RECORD_BODY.size
_CHUNK = 1 << 18


class Record(NamedTuple):
    """A record found in a ring: ``at`` is CLOCK_MONOTONIC when it was written."""

    serial: int
    offset: int
    oldest_serial: int
    oldest_offset: int
    at: float
    data: bytes


class Numbers(NamedTuple):
    """How far a resource set had come of which no frame is left in the ring."""

    resource_set: int
    epoch: int
    last: int
    made: int


def space(size: int) -> int:
    """The bytes that a frame of ``size`` bytes takes in a ring."""
    return (RECORD_SIZE + size + 7) & ~7


class MemoryRing:
    """The same ring without a file: what the process held is gone with it."""

    path: str | None = None

    def __init__(self) -> None:
        self._data: dict[int, bytes] = {}

    def write(self, offset: int, _serial: int, _oldest: tuple[int, int], _at: float, data: bytes) -> None:
        """Keep ``data`` at ``offset``."""
        self._data[offset] = data

    def read(self, offset: int, _size: int) -> bytes:
        """What was written at ``offset``."""
        return self._data[offset]

    def free(self, offset: int) -> None:
        """Forget what was written at ``offset``."""
        self._data.pop(offset, None)

    def begin_lap(self, _oldest: tuple[int, int], _serial: int) -> None:
        """Nothing to write down: memory needs no recovery."""

    def remember(self, _numbers: Numbers) -> None:
        """Nothing to write down: memory needs no recovery."""

    def close(self) -> None:
        """Forget everything."""
        self._data.clear()


class FileRing:
    """One ring file, locked for this process; call ``recover`` before the first ``write``.

    Raises CannotCreateError when the file cannot be had or another process has it.
    """

    def __init__(self, path: str, capacity: int) -> None:
        self.path = path
        self.capacity = capacity
        self._slots: dict[int, int] = {}
        self._file = _open_locked(path)

    def recover(self) -> tuple[int, list[Record], list[Numbers], str]:
        """The host, the records, oldest first, the numbers of sets without one, and what was found:
        ``created recovered version capacity damaged``. Anything but ``recovered`` is empty."""
        head = os.pread(self._file, AREA, 0)
        found = "created" if not head else _header_fault(head, self.capacity)
        if found == "recovered":
            host = int(_HEADER.unpack_from(head)[4])
            records = self._records(head)
            newest = records[-1].serial if records else 0
            if newest + 1 >= self._highest_serial():
                return host, records, self._ledger(head), found
            found = "damaged"  # numbers are in use that can no longer be read
        return 0, [], [], found

    def create(self, host: int) -> None:
        """Make an empty ring of ``host``. Raises CannotCreateError when there is no room for it."""
        self._slots.clear()
        head = _HEADER.pack(MAGIC, VERSION, 0, self.capacity, host)
        head += struct.pack("<I", zlib.crc32(head))
        try:
            os.ftruncate(self._file, 0)
            if os.pwrite(self._file, head.ljust(AREA, b"\0"), 0) != AREA:
                raise OSError("no space left")
        except OSError as error:
            raise CannotCreateError(f"the ring file {self.path} cannot be written: {error}") from error

    def write(self, offset: int, serial: int, oldest: tuple[int, int], at: float, data: bytes) -> None:
        """Store a record at ``offset`` of the area. Raises OSError when it does not fit the disk."""
        crc: int = struct.unpack_from("<I", data, 4)[0]
        body = _RECORD_BODY.pack(serial, *oldest, at, len(data), crc)
        head = _RECORD_HEAD.pack(RECORD_MAGIC, zlib.crc32(body))
        if os.pwritev(self._file, (head, body, data), AREA + offset) != RECORD_SIZE + len(data):
            raise OSError("no space left: the record was cut off")

    def read(self, offset: int, size: int) -> bytes:
        """The ``size`` bytes of the frame in the record at ``offset``."""
        return os.pread(self._file, size, AREA + offset + RECORD_SIZE)

    def free(self, _offset: int) -> None:
        """Nothing to do: the record will be overwritten."""

    def begin_lap(self, oldest: tuple[int, int], serial: int) -> None:
        """Write down where the oldest record is, before the start of the area is overwritten."""
        lap = _LAP.pack(*oldest, serial)
        os.pwrite(self._file, lap + struct.pack("<I", zlib.crc32(lap)), _LAP_AT)

    def remember(self, numbers: Numbers) -> None:
        """Write down the numbers of a set before its last frame is overwritten (64 sets at most)."""
        slot = self._slots.setdefault(numbers.resource_set, len(self._slots))
        if slot < _LEDGER_SLOTS:
            crc = zlib.crc32(repr(tuple(numbers)).encode())
            row = _LEDGER.pack(numbers.resource_set, crc, *numbers[1:])
            os.pwrite(self._file, row, _LEDGER_AT + slot * _LEDGER.size)

    def is_linked(self) -> bool:
        """Whether the path still names this very file."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except OSError:
            return False

    def relink(self) -> None:
        """Give the path this file's content again after somebody deleted it. Raises
        CannotCreateError when that is not possible; this ring then goes on without a name."""
        copy = _open_locked(self.path)
        try:
            size = os.fstat(self._file).st_size
            for start in range(0, size, _CHUNK):
                os.pwrite(copy, os.pread(self._file, _CHUNK, start), start)
        except OSError as error:
            os.close(copy)
            raise CannotCreateError(f"the ring file {self.path} cannot be written again: {error}") from error
        os.close(self._file)
        self._file = copy

    def close(self) -> None:
        """Unlock and close; the file stays for the next start. Calling it again is harmless."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _records(self, head: bytes) -> list[Record]:
        lap = list(self._chain(0, None))
        if not lap:  # cut off in the first write of a lap
            values = head[_LAP_AT : _LAP_AT + _LAP.size]
            if struct.pack("<I", zlib.crc32(values)) != head[_LAP_AT + _LAP.size : _LAP_AT + _LAP.size + 4]:
                return []
            oldest_serial, oldest_offset, _ = _LAP.unpack(values)
            return list(self._chain(oldest_offset, oldest_serial))
        newest = lap[-1]
        if newest.oldest_serial >= lap[0].serial:
            return lap[newest.oldest_serial - lap[0].serial :]
        before = []
        for record in self._chain(newest.oldest_offset, newest.oldest_serial):
            if record.serial >= lap[0].serial:
                break
            before.append(record)
        whole = before and before[-1].serial + 1 == lap[0].serial
        return before + lap if whole else lap

    def _chain(self, offset: int, serial: int | None) -> Iterator[Record]:
        while (record := self._record(offset)) is not None and serial in (None, record.serial):
            yield record
            offset += space(len(record.data))
            serial = record.serial + 1

    def _record(self, offset: int) -> Record | None:
        """The record at ``offset``, or None when there is no whole one."""
        if offset + RECORD_SIZE > self.capacity:
            return None
        body = _checked_body(os.pread(self._file, RECORD_SIZE, AREA + offset))
        if body is None:
            return None
        serial, oldest_serial, oldest_offset, at, size, crc = body
        data = self.read(offset, size) if size <= self.capacity else b""
        if len(data) != size or size < 8 or zlib.crc32(memoryview(data)[8:]) != crc:
            return None
        return Record(serial, offset, oldest_serial, oldest_offset, at, data)

    def _ledger(self, head: bytes) -> list[Numbers]:
        rows = []
        for slot in range(_LEDGER_SLOTS):
            resource_set, crc, *rest = _LEDGER.unpack_from(head, _LEDGER_AT + slot * _LEDGER.size)
            numbers = Numbers(resource_set, *rest)
            if crc == zlib.crc32(repr(tuple(numbers)).encode()):
                self._slots[resource_set] = slot
                rows.append(numbers)
        return rows

    def _highest_serial(self) -> int:
        """The highest serial of any record head in the file, whether its frame is whole or not."""
        highest = 0
        for start in range(AREA, AREA + self.capacity, _CHUNK):
            chunk = os.pread(self._file, _CHUNK + RECORD_SIZE, start)
            if not chunk:
                break
            at = chunk.find(RECORD_MAGIC)
            while 0 <= at < _CHUNK:
                body = _checked_body(chunk[at : at + RECORD_SIZE])
                if body is not None:
                    highest = max(highest, body[0])
                at = chunk.find(RECORD_MAGIC, at + 1)
        return highest


def _checked_body(data: bytes) -> tuple[int, int, int, float, int, int] | None:
    if len(data) != RECORD_SIZE or data[:4] != RECORD_MAGIC:
        return None
    body = data[_RECORD_HEAD.size :]
    if struct.unpack_from("<I", data, 4)[0] != zlib.crc32(body):
        return None
    serial, oldest_serial, oldest_offset, at, size, crc = _RECORD_BODY.unpack(body)
    return serial, oldest_serial, oldest_offset, at, size, crc


def _header_fault(head: bytes, capacity: int) -> str:
    if len(head) < AREA or head[:8] != MAGIC:
        return "damaged"
    _, version, _, found, _ = _HEADER.unpack_from(head)
    if version != VERSION:
        return "version"
    if struct.unpack_from("<I", head, _HEADER.size)[0] != zlib.crc32(head[: _HEADER.size]):
        return "damaged"
    return "recovered" if found == capacity else "capacity"


def _open_locked(path: str) -> int:
    """A descriptor of the locked file. It must be our own regular file: /dev/shm is open to all users."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotCreateError(f"the ring file {path} cannot be opened: {error.strerror}") from error
    status = os.fstat(file)
    problem = ""
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        problem = "is not a regular file of this user"
    else:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            problem = "is in use by another probe"
    if problem:
        os.close(file)
        raise CannotCreateError(f"the ring file {path} {problem}; give [probe] another ring_path")
    return file
