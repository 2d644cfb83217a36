"""Open files of /proc, read repeatedly through their descriptors.

Reading an open file from offset 0 costs half of opening, reading and closing it
(docs/decisions/0011), and a descriptor of /proc/PID/… stays bound to that very process: once it
is gone the read fails with ESRCH, also when its pid has been given to another.
"""

from __future__ import annotations

import os

from probes.sampling.native import PROCESSES

_PAGE = 4096
_MOST = (1 << 64) - 1  #: of a counter of the kernel
NUMBER_WITHIN = 48  #: bytes after a label


class OpenFile:
    """One file that is opened on first use and kept open."""

    __slots__ = ("_descriptor", "_size", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1
        self._size = _PAGE

    def fileno(self) -> int:
        """The open descriptor. Raises OSError if it cannot be opened."""
        if self._descriptor < 0:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptor

    def read(self) -> bytes:
        """The whole content. Raises OSError if it cannot be read."""
        descriptor = self.fileno()
        data = os.pread(descriptor, self._size, 0)
        more = os.pread(descriptor, self._size, len(data))
        while more:  # a short read is not the end: /proc/net/dev gives no more than 4 kB at once
            data += more
            more = os.pread(descriptor, self._size, len(data))
        if len(data) > self._size:
            self._size = 2 * len(data)  # /proc/stat of a machine with many interrupts takes 100 kB
        return data

    def read_if_there(self) -> bytes:
        """The whole content, empty if it cannot be read."""
        try:
            return self.read()
        except OSError:
            return b""

    def close(self) -> None:
        """Close; the next read opens the file again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_once(path: str, limit: int = 1 << 16) -> bytes:
    """At most ``limit`` bytes of a file that is not read again. Raises OSError."""
    return _read_piecewise(path, limit) if PROCESSES is None else PROCESSES.read_once(path, limit)


def _read_piecewise(path: str, limit: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, limit)
        while len(data) < limit and (more := os.read(descriptor, limit - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


def number_after(text: bytes, label: bytes) -> int | None:
    """The whole number after ``label`` (spaces in between are skipped), or None."""
    at = text.find(label)
    if at < 0:
        return None
    words = text[at + len(label) : at + len(label) + NUMBER_WITHIN].split(None, 1)
    return whole(words[0]) if words else None


def whole(word: bytes) -> int | None:
    """The 64-bit whole number in a word, None for anything else."""
    if not word.isdigit() or len(word) > NUMBER_WITHIN:
        return None
    number = int(word)
    return number if number <= _MOST else None
