"""Routing of commands: the slot map, and redirections by MOVED and ASK (pure)."""

from __future__ import annotations

from typing import Any, NamedTuple

from acquisition.errors import ShardError
from acquisition.link.resp import Address

_UNKNOWN = ("", "?")  #: reply of a shard for an unknown host, and for its own before any node has met it


class Stripe(NamedTuple):
    """Slots next to each other, both ends included, and the shard that owns them."""

    low: int
    high: int
    owner: Address


def parse_slots(rows: Any, asked: Address) -> list[Stripe]:
    """Stripes in slot order. A shard without a host is at the host of the one that was ``asked``.

    Raises ShardError if ``rows`` is not such a reply.
    """
    try:
        return sorted(_stripe(low, high, master, asked) for low, high, master, *_ in rows)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ShardError(f"shard {asked}: unexpected reply to CLUSTER SLOTS: {rows!r:.200}") from error


def redirection(text: str, asked: Address) -> Address | None:
    """The address in ``<slot> <host>:<port>``, with the host as for ``parse_slots``; None if absent."""
    host, colon, port = text.rpartition(" ")[2].rpartition(":")  # Redis puts no brackets around ::1
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        return None
    return Address(asked.host if host in _UNKNOWN else host, int(port))


def _stripe(low: Any, high: Any, master: Any, asked: Address) -> Stripe:
    host = master[0].decode() if master[0] else ""
    return Stripe(int(low), int(high), Address(asked.host if host in _UNKNOWN else host, int(master[1])))
