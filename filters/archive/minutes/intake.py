"""Intake of a partition's entries: ownership, signature and limits of frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from acquisition.errors import FrameError
from acquisition.wire import frame as wire
from acquisition.wire import keys
from acquisition.wire.frame import Frame
from acquisition.wire.rejected import HostSizes, Limits
from acquisition.wire.signature import Verifier
from filters.archive.minutes.notes import Notes

T = TypeVar("T")


class Intake:
    """Intake of one partition; ``verifier`` None: signatures are not checked."""

    def __init__(self, number: int, partitions: int, limits: Limits, verifier: Verifier | None, notes: Notes) -> None:
        self.sizes = HostSizes(limits)
        self._number, self._partitions, self._verifier, self._notes = number, partitions, verifier, notes

    def frame_in(self, entry: bytes, fields: Any) -> Frame | None:
        """Frame in an entry; None if the filter rejects it."""
        return self.tried(entry, lambda: self._frame_in(fields))

    def tried(self, entry: bytes, work: Callable[[], T]) -> T | None:
        """Result of ``work`` on an entry; None if it fails, with an event unless the filter reports
        it."""
        try:
            return work()
        except FrameError:
            return None
        except Exception as error:  # of any kind: the other entries must be processed
            self._notes.put_aside("put_aside", entry, f"{type(error).__name__}: {error}")
            return None

    def _frame_in(self, fields: Any) -> Frame | None:
        if not isinstance(fields, list) or len(fields) < 2 or fields[0] != keys.ENTRY_FIELD:
            return None
        if self._verifier is not None:
            self._verifier.check(fields[1], fields)
        frame = wire.decode(fields[1])
        if keys.partition_of(frame.host, self._partitions) != self._number:
            return None
        self.sizes.add(frame.host, frame.resource_set)
        self.sizes.check(frame)
        return frame
