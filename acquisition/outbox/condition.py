"""Condition of a writer: refusal of its frames, and figures for its status."""

from __future__ import annotations

from typing import Any

from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.link.sender import Sender
from acquisition.outbox.positions import Positions


class Condition:
    """Condition of a writer, from its ``outbox``, ``sender`` and ``positions``, none of which it changes."""

    def __init__(self, outbox: Outbox, sender: Sender, positions: Positions) -> None:
        self._outbox = outbox
        self._sender = sender
        self._positions = positions
        self._undisputed = True  # at the newest ``judge``: no window was contested or refused

    @property
    def refused(self) -> str:
        """Reason, in a word, for which the filter refuses frames that it could otherwise take; "" if it is not known
        to refuse any."""
        return next((window.stall.refused for window in self._outbox.windows.values() if window.stall.refused), "")

    @property
    def contested(self) -> bool:
        """Whether another sender uses the name of this host."""
        return any(window.contested for window in self._outbox.windows.values())

    @property
    def is_well(self) -> bool:
        """Whether frames go out and are not disputed."""
        return not self._sender.problem and self._undisputed

    def judge(self) -> None:
        """Note disputes: called when positions were read, or when refused frames may be accepted."""
        self._undisputed = True
        for window in self._outbox.windows.values():
            if window.contested or window.stall.refused:
                self._undisputed = False

    def account(self) -> dict[str, Any]:
        """Sums over all windows, a row for each window, and the condition; the same figures as in the status record."""
        windows = self._outbox.windows.values()
        return {
            "sets": {window.resource_set: window.status()._asdict() for window in windows},
            "frames": sum(window.last for window in windows),
            "made": sum(window.made for window in windows),
            "resent_frames": sum(window.counts.resent for window in windows),
            "dropped_frames": sum(window.counts.dropped_frames for window in windows),
            "dropped_samples": sum(window.counts.dropped_samples for window in windows),
            "shed_frames": sum(window.counts.shed_frames for window in windows),
            "shed_samples": sum(window.counts.shed_samples for window in windows),
            "unsent_frames": sum(window.last + 1 - window.next for window in windows),
            "problem": self._sender.problem,
            **self._figures(),
        }

    def status(self) -> dict[str, Any]:
        """Fields of the status record beside the rows of the windows."""
        refused = {"refused": self.refused} if self.refused else {}
        return {**refused, **self._figures()}

    def _figures(self) -> dict[str, Any]:
        """Ring, connections and errors by kind."""
        outbox, sender, unreadable = self._outbox, self._sender, self._positions.unreadable
        return {
            "ring": {
                "found": outbox.found,
                "bytes": outbox.bytes,
                "capacity_bytes": outbox.capacity,
                "frames": outbox.end - outbox.first,
            },
            "connections": sender.generation,
            "errors": {**sender.errors, **outbox.faults, **({"position": unreadable} if unreadable else {})},
        }
