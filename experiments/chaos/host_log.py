"""Host log: fixed records of every frame, written before the frame is offered.

Values follow from (seed, host, number), see ``load``. A generator killed between note and offer leaves a note of a
frame that was never made: when restarted it compares the log with its ring, which is authoritative, and removes that
one note.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import ShardpulseError

_NOTE = struct.Struct("<IIQQdd")


class LogError(ShardpulseError):
    """Log and ring disagree: a ring was lost, or frames were made without notes."""


class Note(NamedTuple):
    """One frame of samples; ``monotonic`` and ``wall`` as offered."""

    number: int  #: 0, 1, 2 … of this host, tables not counted
    samples: int
    epoch: int
    sequence: int
    monotonic: float
    wall: float


class HostLog:
    """Appends notes with one ``write`` each: written notes survive kill -9."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def append(self, note: Note) -> None:
        """Write a note."""
        os.write(self._file, _NOTE.pack(*note))

    def cut(self, notes: int) -> None:
        """Keep only the first ``notes``."""
        os.ftruncate(self._file, notes * _NOTE.size)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read(path: Path) -> list[Note]:
    """The notes of a host, oldest first; none without a file. A torn last one is left out."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return [Note(*fields) for fields in _NOTE.iter_unpack(data[: len(data) // _NOTE.size * _NOTE.size])]


def made_notes(notes: Sequence[Note], made: int, epoch: int) -> int:
    """Number of notes with frames made, given ``made`` samples of ``epoch`` in the ring: all, or all but the last.
    Raises LogError if it is neither.
    """
    noted = sum(note.samples for note in notes)
    if not notes and not made:
        return 0
    if notes and notes[0].epoch == epoch:
        if noted == made:
            return len(notes)
        if noted - notes[-1].samples == made:
            return len(notes) - 1
    of = notes[0].epoch if notes else 0
    raise LogError(f"the log has {noted} samples of epoch {of}, the ring {made} of epoch {epoch}")
