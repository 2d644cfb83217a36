"""Who holds a lease: the value of ``lease:{tag}`` and the members of ``workers:{tag}``.

``<id> <milliseconds> <name> [<step> [<figures>]]``: the worker's random id, how long its leases last without being
renewed, what people call it, how it computes (``native`` or ``numpy``), and a checksum of what it is to compute.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from acquisition.errors import FrameError

_HOLDER = re.compile(rb"([0-9a-f]{16}) ([0-9]{1,9}) (\S{1,255})(?: (native|numpy)(?: ([0-9a-f]{8}))?)?")


class Holder(NamedTuple):
    """A filter worker; ``name`` has no blanks. ``step`` and ``figures`` are "" when it does not say; without ``step``
    there are no ``figures``."""

    id: str
    milliseconds: int
    name: str
    step: str = ""
    figures: str = ""


def encode(holder: Holder) -> bytes:
    """The bytes of a holder."""
    return f"{holder.id} {holder.milliseconds} {holder.name} {holder.step} {holder.figures}".rstrip().encode()


def decode(data: bytes) -> Holder:
    """The holder in ``data``. Raises FrameError if it is invalid."""
    found = _HOLDER.fullmatch(data)
    if found is None:
        raise FrameError("payload", f"{data[:60]!r} names no filter worker")
    step, figures = ((part or b"").decode() for part in found.groups()[3:])
    return Holder(found[1].decode(), int(found[2]), found[3].decode(errors="replace"), step, figures)
