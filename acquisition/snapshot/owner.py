"""Whose values something is."""

from __future__ import annotations

#: (host id, resource set id).
Owner = tuple[int, int]
