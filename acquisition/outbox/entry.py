"""What an outbox knows of a frame that it holds."""

from __future__ import annotations

from typing import NamedTuple

from acquisition.outbox.window import SendWindow

IN_MEMORY = -1  #: the offset of a frame that a full tmpfs refused


class Entry(NamedTuple):
    """A held frame. ``made`` counts the samples up to and including it; ``window`` is None when
    it is forgotten: its numbers count for nobody any more."""

    window: SendWindow | None
    sequence: int
    made: int
    samples: int
    offset: int
    size: int
    at: float
    serial: int
    shed: bool = False  #: it will not be sent
