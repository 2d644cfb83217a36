"""Who holds a lease: the value of ``lease:{tag}`` and the members of ``workers:{tag}``.

``<id> <milliseconds> <name> [<step>]``: the worker's random id, how long its leases last without being
renewed, what people call it, and how it computes (``native`` or ``numpy``).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from acquisition.errors import FrameError

_HOLDER = re.compile(rb"([0-9a-f]{16}) ([0-9]{1,9}) (\S{1,255})(?: (native|numpy))?")


class Holder(NamedTuple):
    """A filter worker; ``name`` has no blanks. ``step`` is "" when it does not say."""

    id: str
    milliseconds: int
    name: str
    step: str = ""


def encode(holder: Holder) -> bytes:
    """The bytes of a holder."""
    return f"{holder.id} {holder.milliseconds} {holder.name} {holder.step}".rstrip().encode()


def decode(data: bytes) -> Holder:
    """The holder in ``data``. Raises FrameError when it is none."""
    found = _HOLDER.fullmatch(data)
    if found is None:
        raise FrameError("payload", f"{data[:60]!r} names no filter worker")
    return Holder(found[1].decode(), int(found[2]), found[3].decode(errors="replace"), (found[4] or b"").decode())
