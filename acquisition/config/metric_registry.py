"""Installed metrics and kernels, found through entry points.

This package registers none itself.

The group ``shardpulse.validators`` names objects that know registries beside ``acquisition.plugins``: called with
``(settings, name)``, one raises ConfigError for unregistered names; its ``choices()`` are the valid names by key.
Unlike ``acquisition.config.loader``, this module imports all packages that define them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from acquisition import extras, plugins
from acquisition.config import loader as config
from acquisition.model.metric import resource_set_id

VALIDATORS = "shardpulse.validators"


def registered() -> dict[str, list[str]]:
    """Map from resource set to the names of its metrics, over all installed packages."""
    sets = plugins.registered(plugins.METRICS)
    return {name: [metric.name for metric in found.metrics] for name, found in sets.items()}


def set_names() -> Mapping[int, str]:
    """Resource sets of the installed packages by number; others keep their number."""
    with contextlib.suppress(Exception):  # a broken package must not hide the condition of the pipeline
        return {resource_set_id(name): name for name in registered()}
    return {}


def choices() -> dict[str, tuple[str, ...]]:
    """Map from key to its permitted names, over all installed packages."""
    return {key: names for check in _validators() for key, names in check.choices().items()}


def load_checked(path: str | None = None) -> config.Settings:
    """``config.load`` that also refuses unknown metrics, kernels and rules, naming key and name (ConfigError)."""
    settings = config.load(path)
    name = config.find(path) or "configuration"
    config.check_metrics(settings, registered(), name)
    config.check_kernels(settings, plugins.registered(plugins.KERNELS), name)
    for check in _validators():
        check(settings, name)
    return settings


def _validators() -> Iterator[Any]:
    """Validators of the installed packages."""
    for entry in entry_points(group=VALIDATORS):
        try:
            yield entry.load()
        except ModuleNotFoundError as error:
            if not extras.is_absent(entry, error):
                raise
