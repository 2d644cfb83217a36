"""Notes of a partition until they are written: events and lost samples (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from acquisition.wire.frame import Frame
from acquisition.wire.stream_id import parse
from filters.archive.minutes.values import Event

_LONGEST_REASON = 300


class _Loss(NamedTuple):
    """Key of losses recorded together."""

    kind: str
    reason: str
    host: int
    resource_set: int
    epoch: int


class Notes:
    """Notes of one partition, by its number; ``tell`` returns all notes since its last call."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._events: list[Event] = []
        self._lost: dict[_Loss, tuple[int, int, int, int]] = {}  #: time, first number, samples, frames

    def note(self, event: Event) -> None:
        """Record a complete event."""
        self._events.append(event)

    def of_entry(self, kind: str, entry: bytes, details: Mapping[str, str], host: int | None = None) -> None:
        """Record an event about a stream entry, with the entry's time."""
        self.note(Event(parse(entry)[0] / 1000.0, kind, host, None, {"partition": self._partition, **details}))

    def put_aside(self, kind: str, entry: bytes, reason: str, host: int | None = None) -> None:
        """Record an entry that was not taken, with the reason."""
        self.of_entry(kind, entry, {"entry": entry.decode(), "reason": ascii(reason)[:_LONGEST_REASON]}, host)

    def restarted(self, frame: Frame, now: int) -> None:
        """Record that this frame began another epoch of its set; ``now`` in milliseconds of the stream's ids."""
        details = {"resource_set": frame.resource_set, "epoch": str(frame.epoch)}
        self.note(Event(now / 1000.0, "restart", frame.host, None, details))

    def lose(self, kind: str, frame: Frame, now: int, samples: int, frames: int = 1, reason: str = "") -> None:
        """Record samples that ``frame`` shows to be lost: one event per kind, reason and epoch in each report,
        however many frames."""
        key = _Loss(kind, reason, frame.host, frame.resource_set, frame.epoch)
        first, sequence, before, several = self._lost.get(key, (now, frame.sequence, 0, 0))
        self._lost[key] = first, sequence, before + samples, several + frames

    def tell(self) -> list[Event]:
        """Return all events and clear them."""
        told = self._events + [_lost(key, *what) for key, what in self._lost.items()]
        self._events = []
        self._lost.clear()
        return told


def _lost(key: _Loss, first: int, sequence: int, samples: int, frames: int) -> Event:
    details: dict[str, Any] = {"resource_set": key.resource_set, "epoch": str(key.epoch), "samples": samples}
    if key.reason:
        details["reason"] = key.reason
    details |= {"frames": frames, "first": sequence}  # the first is in one event only, so no two are equal
    return Event(first / 1000.0, key.kind, key.host, None, details)
