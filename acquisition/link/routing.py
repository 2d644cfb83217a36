"""Routing of commands: the map of slots, and where MOVED and ASK lead (pure)."""

from __future__ import annotations

from typing import Any, NamedTuple

from acquisition.errors import ShardError
from acquisition.link.resp import Address

_UNKNOWN = ("", "?")  #: what a shard says of a host that it does not know, its own before anybody has met it


class Stripe(NamedTuple):
    """Slots next to each other, both ends included, and the shard that owns them."""

    low: int
    high: int
    owner: Address


def parse_slots(rows: Any, asked: Address) -> list[Stripe]:
    """The stripes in slot order. A shard without a host is where the one is that was ``asked``.

    Raises ShardError when ``rows`` is no such reply.
    """
    try:
        return sorted(_stripe(low, high, master, asked) for low, high, master, *_ in rows)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ShardError(f"shard {asked}: unexpected reply to CLUSTER SLOTS: {rows!r:.200}") from error


def redirection(text: str, asked: Address) -> Address | None:
    """The address in ``<slot> <host>:<port>``, as ``parse_slots`` understands a host; None if absent."""
    host, colon, port = text.rpartition(" ")[2].rpartition(":")  # Redis puts no brackets around ::1
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        return None
    return Address(asked.host if host in _UNKNOWN else host, int(port))


def _stripe(low: Any, high: Any, master: Any, asked: Address) -> Stripe:
    host = master[0].decode() if master[0] else ""
    return Stripe(int(low), int(high), Address(asked.host if host in _UNKNOWN else host, int(master[1])))
