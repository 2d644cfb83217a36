"""Plugins registered through entry points: metrics, sources, checks, kernels.

This package imports none of them by name, so that it is independent and accepts additions of other packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from acquisition import extras
from acquisition.errors import ConfigError

#: Mappings from resource set to acquisition.model.metric.ResourceSet.
METRICS = "shardpulse.metrics"
#: Mappings from (resource set, name) to probes.sources.Registered.
SOURCES = "shardpulse.sources"
#: Mappings from name to acquisition.model.check_kind.CheckKind, in the order in which they run.
CHECKS = "shardpulse.checks"
#: Mappings from name to kernel; a kernel has a ``plane`` (acquisition.wire.records.planes).
KERNELS = "shardpulse.kernels"
#: Mappings from name to the objects of that kind in filters.decisions.
RULES = "shardpulse.rules"
SELECTIONS = "shardpulse.selections"
PLACEMENTS = "shardpulse.placements"
#: Mappings from name to functions that declare resources of the query service.
RESOURCES = "shardpulse.resources"


def registered(group: str, own: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
    """All registered objects of a group by name, after a package's ``own``. Raises ConfigError for an
    entry that cannot be loaded, and for two of one name. Parts of this project without their extra are left out."""
    found: dict[Any, Any] = dict(own or {})
    for entry in _entry_points():
        if entry.group != group:
            continue
        try:
            mapping = dict(entry.load())
        except Exception as error:  # code of another package, which may fail in any way
            if extras.is_absent(entry, error):
                continue
            raise ConfigError(f"cannot load entry point {entry.name} = {entry.value} of {group}: {error}") from error
        for name, value in mapping.items():
            if found.setdefault(name, value) is not value:
                raise ConfigError(f"entry point {entry.name} = {entry.value} of {group}: {name!r} is registered twice")
    return found


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """Entry points of this project's groups; reading them takes tens of milliseconds, and a command needs several."""
    found = entry_points()
    return tuple(
        entry for group in found.groups if group.startswith("shardpulse.") for entry in found.select(group=group)
    )
