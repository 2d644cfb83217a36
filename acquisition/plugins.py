"""What installed packages register with each other through entry points: metrics, kernels.

This package imports none of them by name, so that it stands alone and takes what other packages add.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from acquisition.errors import ConfigError

#: Mappings from resource set to acquisition.model.metric.ResourceSet.
METRICS = "shardpulse.metrics"
#: Mappings from name to kernel; a kernel has a ``plane`` (acquisition.wire.planes).
KERNELS = "shardpulse.kernels"


def registered(group: str) -> dict[str, Any]:
    """All that is registered in a group, by name. Raises ConfigError for an entry that cannot be loaded, and for two
    of one name."""
    found: dict[str, Any] = {}
    for entry in entry_points(group=group):
        try:
            mapping = dict(entry.load())
        except Exception as error:  # code of another package, which may fail in any way
            raise ConfigError(
                f"entry point {entry.name} = {entry.value} of {group} cannot be loaded: {error}"
            ) from error
        for name, value in mapping.items():
            if found.setdefault(name, value) is not value:
                raise ConfigError(f"entry point {entry.name} = {entry.value} of {group}: {name!r} is registered twice")
    return found
