"""Hosts with systemd for tests, skipped where they are not possible.

They are experiments.hosts, required by ``demanded``.
"""

from __future__ import annotations

from experiments.hosts import Host, HostError, data_center, missing, sources, tree

__all__ = ["Host", "HostError", "data_center", "missing", "sources", "tree"]
