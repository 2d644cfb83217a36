"""Batch of a partition: frames of one read to smooth, and what its commit writes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.wire import frame as wire
from acquisition.wire.frame import Frame
from filters.worker.partitions.rejections import Rejections, unforeseen
from filters.worker.states.state import State

_NAMED = slice(12, wire.HEADER_SIZE)  #: of a frame: what is the same however its samples are marked


class Accepted(NamedTuple):
    """A frame to smooth, encoded, with so many samples, the state that it advances, and the batch of its commands.

    ``frame`` is None while nobody has needed more of it.
    """

    batch: Batch
    state: State
    samples: int
    data: bytes
    frame: Frame | None = None

    def decoded(self) -> Frame:
        """The frame."""
        return wire.decode(self.data) if self.frame is None else self.frame


@dataclass(slots=True, eq=False)
class Batch:
    """Entries of one read of partition ``number``, and what the commit of them writes. ``held`` is the id of the commit
    before it.

    ``records`` are packed SET commands by their prefix, which names the key; ``extra`` all other commands; ``dirty``
    the states by member whose positions are written. The native step (filters.worker.step.native) adds to all three.
    """

    number: int
    rejections: Rejections
    held: bytes = b""
    entries: list[Any] = field(default_factory=list)
    extra: list[bytes] = field(default_factory=list)
    records: dict[bytes, bytes] = field(default_factory=dict)
    dirty: dict[bytes, State] = field(default_factory=dict)
    accepted: list[Accepted] = field(default_factory=list)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *raised: object) -> None:
        self.accepted = []  # each refers to the batch: no reference cycle stays behind

    def also(self, *commands: bytes) -> None:
        """Run packed commands of the partition's keys in the commit as well."""
        self.extra.extend(commands)

    def keep_record(self, prefix: bytes, command: bytes) -> None:
        """Write a record, a packed SET; a newer one with the same ``prefix`` replaces it."""
        self.records[prefix] = command

    def reject(self, entry_id: bytes, error: FrameError, fields: Sequence[Any]) -> None:
        """Keep an entry among the rejected ones, with the reason."""
        self.also(*self.rejections.add(entry_id, error, fields, time.monotonic()))

    def give_up(self, accepted: Accepted, error: Exception) -> None:
        """Reject the entry of a frame that could not be smoothed; its averages restart."""
        accepted.state.forget()
        for entry_id, fields in self.entries:
            if isinstance(fields, list) and len(fields) > 1 and fields[1][_NAMED] == accepted.data[_NAMED]:
                self.reject(entry_id, unforeseen(error), fields)
                break
