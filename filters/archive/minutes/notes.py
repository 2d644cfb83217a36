"""Notes of a partition until they are written: events and lost samples (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from acquisition.wire.frame import Frame
from acquisition.wire.stream_id import parse
from filters.archive.minutes.values import Event

_LONGEST_REASON = 300


class _Loss(NamedTuple):
    """Key of losses that are recorded together."""

    kind: str
    reason: str
    host: int
    resource_set: int
    epoch: int


class Notes:
    """Of one partition, by its number; ``tell`` answers all that was noted since it was asked last."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._events: list[Event] = []
        self._lost: dict[_Loss, tuple[int, int, int, int]] = {}  #: since when, first number, samples, frames

    def note(self, event: Event) -> None:
        """An event as it is."""
        self._events.append(event)

    def of_entry(self, kind: str, entry: bytes, details: Mapping[str, str], host: int | None = None) -> None:
        """Something about an entry of the stream, at whose time it happened."""
        self.note(Event(parse(entry)[0] / 1000.0, kind, host, None, {"partition": self._partition, **details}))

    def put_aside(self, kind: str, entry: bytes, reason: str, host: int | None = None) -> None:
        """An entry that is not taken, and why."""
        self.of_entry(kind, entry, {"entry": entry.decode(), "reason": ascii(reason)[:_LONGEST_REASON]}, host)

    def restarted(self, frame: Frame, now: int) -> None:
        """A resource set began another epoch with this frame; ``now`` in milliseconds of the stream's ids."""
        details = {"resource_set": frame.resource_set, "epoch": str(frame.epoch)}
        self.note(Event(now / 1000.0, "restart", frame.host, None, details))

    def lose(self, kind: str, frame: Frame, now: int, samples: int, frames: int = 1, reason: str = "") -> None:
        """Samples that are known by ``frame`` to be lost: one event of a kind, reason and epoch each time that it is
        reported, however many frames."""
        key = _Loss(kind, reason, frame.host, frame.resource_set, frame.epoch)
        first, sequence, before, several = self._lost.get(key, (now, frame.sequence, 0, 0))
        self._lost[key] = first, sequence, before + samples, several + frames

    def tell(self) -> list[Event]:
        """All events, which are forgotten here."""
        told = self._events + [_lost(key, *what) for key, what in self._lost.items()]
        self._events = []
        self._lost.clear()
        return told


def _lost(key: _Loss, first: int, sequence: int, samples: int, frames: int) -> Event:
    details: dict[str, Any] = {"resource_set": key.resource_set, "epoch": str(key.epoch), "samples": samples}
    if key.reason:
        details["reason"] = key.reason
    details |= {"frames": frames, "first": sequence}  # the first is in one event only, so no two are the same
    return Event(first / 1000.0, key.kind, key.host, None, details)
