"""Ring of the records of an outbox: a file on tmpfs, or memory.

A file written with ``pwritev`` instead of a mapping: a full tmpfs is then an error
instead of SIGBUS, and its pages do not count as memory of the probe.

Layout (little-endian)::

    0      header   magic, version, salt, capacity, host, CRC-32
    256    ledger   64 x (resource set, CRC-32, epoch, last, made): sets without a frame in the ring
    4096   records  RECORD, frame; each aligned to 8 bytes

Records carry consecutive serial numbers; one write stores a frame, and nothing else has to be kept
in step with it. A later process searches for record heads, takes the highest serial number and
goes down from there as far as records are whole. Only the newest can have been cut off,
by a kill in the middle of its write, and then it was never sent. If more is
missing at the upper end, some numbers in use are unknown: the ring is damaged.
The CRC of a head starts from the ring's random salt, so that no frame can contain one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import zlib
from typing import NamedTuple

from acquisition.errors import CannotCreateError

MAGIC = b"SPLSRING"
VERSION = 1
RECORD_MAGIC = b"SPLR"
AREA = 4096
_HEADER = struct.Struct("<8sIIQQ")  # magic, version, salt, capacity, host
_LEDGER = struct.Struct("<IIQQQ")  # resource set, CRC, epoch, last, made
_LEDGER_AT = 256
_LEDGER_SLOTS = 64
_RECORD_HEAD = struct.Struct("<4sI")  # magic, CRC of the rest
_RECORD_BODY = struct.Struct("<QQdII")  # serial, oldest serial, time, frame size, frame CRC
RECORD_SIZE = _RECORD_HEAD.size + _RECORD_BODY.size
_CHUNK = 1 << 18
_FULL = (errno.ENOSPC, errno.EDQUOT)
_ELSEWHERE = "set a different [probe] ring_path"


class RingDenied(CannotCreateError):
    """No ring file is available because of others: its name is another user's, or the disk is full."""


class Record(NamedTuple):
    """Record found in a ring: ``at`` is CLOCK_MONOTONIC when it was written, ``size`` that of its frame in bytes. The
    frame itself stays in the file: all frames together are as large as the ring."""

    serial: int
    oldest_serial: int  #: of the oldest record held when it was written
    offset: int
    at: float
    size: int


class Numbers(NamedTuple):
    """Last numbers of a resource set without a frame in the ring."""

    resource_set: int
    epoch: int
    last: int
    made: int


class Recovery(NamedTuple):
    """Contents of a ring file, oldest record first; all is empty unless ``found`` is ``recovered``."""

    found: str  #: ``created recovered version capacity damaged``
    host: int = 0
    records: tuple[Record, ...] = ()
    ledger: tuple[Numbers, ...] = ()
    whole: bool = True  #: no record is missing at the lower end


def space(size: int) -> int:
    """Bytes taken in a ring by a frame of ``size`` bytes."""
    return (RECORD_SIZE + size + 7) & ~7


class MemoryRing:
    """The same ring without a file: its contents are lost with the process."""

    path: str | None = None

    def __init__(self) -> None:
        self._data: dict[int, bytes] = {}

    def write(self, offset: int, _serial: int, _oldest_serial: int, _at: float, data: bytes) -> None:
        """Keep ``data`` at ``offset``."""
        self._data[offset] = data

    def read(self, offset: int, _size: int) -> bytes:
        """Bytes written at ``offset``."""
        return self._data[offset]

    def free(self, offset: int) -> None:
        """Forget the bytes written at ``offset``."""
        self._data.pop(offset, None)

    def remember(self, _numbers: Numbers) -> None:
        """Nothing to record: memory needs no recovery."""

    def close(self) -> None:
        """Forget everything."""
        self._data.clear()


class FileRing:
    """One ring file, locked for this process; call ``recover`` before the first ``write``.

    Raises RingDenied or CannotCreateError if the file is not available or another process has it.
    """

    def __init__(self, path: str, capacity: int) -> None:
        self.path = path
        self.capacity = capacity
        self._salt = 0
        self._slots: dict[int, int] = {}
        self._file = _open_locked(path)

    def recover(self) -> Recovery:
        """Contents left by an earlier process."""
        head = os.pread(self._file, AREA, 0)
        found = "created" if not head else _header_fault(head, self.capacity)
        if found != "recovered":
            return Recovery(found)
        _, _, self._salt, _, host = _HEADER.unpack_from(head)
        records = self._records()
        if records is None:
            return Recovery("damaged")
        whole = not records or records[0].serial <= records[-1].oldest_serial
        return Recovery(found, host, tuple(records), tuple(self._ledger(head)), whole)

    def create(self, host: int) -> None:
        """Create an empty ring of ``host``. Raises RingDenied if there is no room for it, else CannotCreateError."""
        self._slots.clear()
        self._salt = int.from_bytes(os.urandom(4), "little")
        head = _HEADER.pack(MAGIC, VERSION, self._salt, self.capacity, host)
        head += struct.pack("<I", zlib.crc32(head))
        try:
            os.ftruncate(self._file, 0)
            if os.pwrite(self._file, head.ljust(AREA, b"\0"), 0) != AREA:
                raise OSError(errno.ENOSPC, "no space left")
        except OSError as error:
            kind = RingDenied if error.errno in _FULL else CannotCreateError
            raise kind(f"cannot write ring file {self.path}: {error}") from error

    def write(self, offset: int, serial: int, oldest_serial: int, at: float, data: bytes) -> None:
        """Store a record at ``offset`` of the area. Raises OSError if it does not fit the disk."""
        crc: int = struct.unpack_from("<I", data, 4)[0]
        body = _RECORD_BODY.pack(serial, oldest_serial, at, len(data), crc)
        head = _RECORD_HEAD.pack(RECORD_MAGIC, zlib.crc32(body, self._salt))
        if os.pwritev(self._file, (head, body, data), AREA + offset) != RECORD_SIZE + len(data):
            raise OSError("no space left: record truncated")

    def read(self, offset: int, size: int) -> bytes:
        """Frame of ``size`` bytes in the record at ``offset``."""
        return os.pread(self._file, size, AREA + offset + RECORD_SIZE)

    def free(self, _offset: int) -> None:
        """Nothing to do: the record will be overwritten."""

    def remember(self, numbers: Numbers) -> None:
        """Record the numbers of a set before its last frame is overwritten (64 sets at most)."""
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
        """Link the content of this file to the path again after its deletion. Raises
        CannotCreateError if that is not possible; this ring then continues without a name."""
        copy = _open_locked(self.path)
        try:
            size = os.fstat(self._file).st_size
            for start in range(0, size, _CHUNK):
                os.pwrite(copy, os.pread(self._file, _CHUNK, start), start)
        except OSError as error:
            os.close(copy)
            raise CannotCreateError(f"cannot rewrite ring file {self.path}: {error}") from error
        os.close(self._file)
        self._file = copy

    def close(self) -> None:
        """Unlock and close; the file stays for the next start. Calling it again is harmless."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _records(self) -> list[Record] | None:
        """Records from the newest down to the first incomplete one, or None: see above."""
        heads = self._heads()
        if not heads:
            return []
        serial = max(heads)
        record = self._record(heads[serial])
        if record is None:  # cut off
            serial -= 1
            record = self._record(heads[serial]) if serial in heads else None
            if record is None:
                return None if serial else []
        records = [record]
        lowest = record.oldest_serial
        while serial > lowest:
            serial -= 1
            record = self._record(heads[serial]) if serial in heads else None
            if record is None:
                break
            records.append(record)
        return records[::-1]

    def _heads(self) -> dict[int, int]:
        """Offsets by serial of all record heads in the file, whether their frames are complete or not."""
        heads: dict[int, int] = {}
        for start in range(0, self.capacity, _CHUNK):
            chunk = os.pread(self._file, _CHUNK + RECORD_SIZE, AREA + start)
            at = chunk.find(RECORD_MAGIC)
            while 0 <= at < _CHUNK:
                body = self._checked_body(chunk[at : at + RECORD_SIZE])
                if body is not None:
                    heads[body[0]] = start + at
                at = chunk.find(RECORD_MAGIC, at + 1)
        return heads

    def _record(self, offset: int) -> Record | None:
        """The record at ``offset``, or None if its frame is incomplete."""
        body = self._checked_body(os.pread(self._file, RECORD_SIZE, AREA + offset))
        if body is None:
            return None
        serial, oldest_serial, at, size, crc = body
        data = self.read(offset, size) if size <= self.capacity else b""
        if len(data) != size or size < 8 or zlib.crc32(memoryview(data)[8:]) != crc:
            return None
        return Record(serial, oldest_serial, offset, at, size)

    def _checked_body(self, data: bytes) -> tuple[int, int, float, int, int] | None:
        if len(data) != RECORD_SIZE or data[:4] != RECORD_MAGIC:
            return None
        body = data[_RECORD_HEAD.size :]
        if struct.unpack_from("<I", data, 4)[0] != zlib.crc32(body, self._salt):
            return None
        serial, oldest_serial, at, size, crc = _RECORD_BODY.unpack(body)
        return serial, oldest_serial, at, size, crc

    def _ledger(self, head: bytes) -> list[Numbers]:
        rows = []
        for slot in range(_LEDGER_SLOTS):
            resource_set, crc, *rest = _LEDGER.unpack_from(head, _LEDGER_AT + slot * _LEDGER.size)
            numbers = Numbers(resource_set, *rest)
            if crc == zlib.crc32(repr(tuple(numbers)).encode()):
                self._slots[resource_set] = slot
                rows.append(numbers)
        return rows


def _header_fault(head: bytes, capacity: int) -> str:
    if len(head) < AREA or head[:8] != MAGIC:
        return "damaged"
    _, version, _, found, _ = _HEADER.unpack_from(head)
    if version != VERSION:
        return "version"
    if struct.unpack_from("<I", head, _HEADER.size)[0] != zlib.crc32(head[: _HEADER.size]):
        return "damaged"
    return "recovered" if found == capacity else "capacity"


def remove(path: str) -> bool:
    """Delete a ring file and its unsent frames; returns whether there was one.

    Raises CannotCreateError while a probe writes to it.
    """
    if not os.path.exists(path):
        return False
    file = _open_locked(path)
    try:
        os.unlink(path)
    finally:
        os.close(file)
    return True


def _open_locked(path: str) -> int:
    """Descriptor of the locked file. It must be our own regular file: /dev/shm is open to all users."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        kind = RingDenied if error.errno in _FULL or _is_foreign(path) else CannotCreateError
        raise kind(f"cannot open ring file {path}: {error.strerror}") from error
    problem: CannotCreateError | None = None
    if not _is_ours(os.fstat(file)):
        problem = RingDenied(f"ring file {path} is not a regular file of this user; {_ELSEWHERE}")
    else:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            problem = CannotCreateError(f"ring file {path} is in use by another probe; {_ELSEWHERE}")
    if problem is not None:
        os.close(file)
        raise problem
    return file


def _is_ours(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _is_foreign(path: str) -> bool:
    """Whether the name is taken by something that is not ours."""
    try:
        return not _is_ours(os.lstat(path))
    except OSError:
        return False
