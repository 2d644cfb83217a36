"""Roster of expired hosts: fields HOST of ``dormant:{tag}``.

``<milliseconds since 1970> <name>``, beside the positions of the host's sets. A host that is in ``applied:{tag}`` needs
no entry. ``tests/acquisition/wire/test_seen.py`` contains golden bytes and a round trip.
"""

from __future__ import annotations

import re
from typing import NamedTuple

KEPT_SECONDS = 7 * 86_400  #: a host is remembered for this long
MOST = 10_000  #: names in all partitions together; the oldest are dropped first
_MOST_NAME = 255  #: characters, as of a host name (POSIX)
_FIELD = re.compile(rb"[0-9a-f]{16}")
_VALUE = re.compile(rb"(\d{1,15}) (.*)", re.DOTALL)


class Seen(NamedTuple):
    """A host that is gone: ``last`` is when its newest samples were taken, in seconds since 1970."""

    host: int
    name: str
    last: float


def is_field(field: bytes) -> bool:
    """Whether a field of ``dormant:{tag}`` belongs to a host, not to a resource set."""
    return _FIELD.fullmatch(field) is not None


def encode(seen: Seen) -> tuple[bytes, bytes]:
    """Field and value."""
    name = seen.name[:_MOST_NAME].encode("utf-8", "replace")
    return b"%016x" % seen.host, b"%d %b" % (max(0, round(seen.last * 1000.0)), name)


def decode(field: bytes, value: bytes) -> Seen | None:
    """Host in a field and its value; None if they are not ours."""
    found = _VALUE.fullmatch(value)
    if found is None or not is_field(field):
        return None
    name = found[2].decode("utf-8", "replace") or field.decode()
    return Seen(int(field, 16), name, int(found[1]) / 1000.0)
