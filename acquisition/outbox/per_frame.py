"""What a writer does for every frame, in C where it could be compiled: the same for half of the CPU time.

``PER_FRAME`` is what ``acquisition.outbox._per_frame`` offers, or None (``acquisition.compiled``). Writer.offer and
InFlight.take are the definition, and go on where a frame is not plain.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from acquisition import compiled


class PerFrame(NamedTuple):
    """``offer`` (outbox, window, host, samples) numbers and keeps a frame and answers its sequence number, 0 where
    nothing was kept. ``take`` (in flight, parts, now, catch_up.START) makes commands; whether none is left to make."""

    offer: Callable[..., int]
    take: Callable[..., bool]


def _load() -> PerFrame | None:
    if compiled.switched_off():
        return None
    try:
        module = import_module("acquisition.outbox._per_frame")
    except ImportError:
        return None
    compiled.complete(module, "offer", "take")
    return PerFrame(module.offer, module.take)


PER_FRAME = _load()
