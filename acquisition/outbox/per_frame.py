"""What a writer does for every frame, in C where it could be compiled: the same for half of the CPU time.

``PER_FRAME`` is what ``acquisition.outbox._per_frame`` offers, or None (``acquisition.compiled``). Writer.offer,
InFlight.take and InFlight.confirm are the definition, and go on where a frame is not plain.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from acquisition import compiled


class PerFrame(NamedTuple):
    """``offer`` (outbox, window, host, samples) numbers and keeps a frame and answers its sequence number, 0 where
    nothing was kept. ``take`` (in flight, parts, now, catch_up.START) makes commands; whether none is left to make.
    ``confirm`` (in flight, replies, what is expected where nothing is) answers as InFlight.confirm."""

    offer: Callable[..., int]
    take: Callable[..., bool]
    confirm: Callable[..., tuple[int, Any] | None]


def _load() -> PerFrame | None:
    if compiled.switched_off():
        return None
    try:
        module = import_module("acquisition.outbox._per_frame")
    except ImportError:
        return None
    compiled.complete(module, "offer", "take", "confirm")
    return PerFrame(module.offer, module.take, module.confirm)


PER_FRAME = _load()
