"""What every table of shardpulse.toml has in common."""

from __future__ import annotations

from msgspec import Struct


class Table(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all tables: frozen, and an unknown key is an error."""
