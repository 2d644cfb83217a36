"""Installed metrics and kernels, found through entry points.

This package knows none by itself.

The group ``shardpulse.validators`` names what knows of registries beside those of ``acquisition.plugins``: called with
``(settings, name)`` it raises ConfigError for what is registered nowhere, and its ``choices()`` list valid keys.
Unlike ``acquisition.config.loader`` this imports all packages that define them.
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
    """Resource set -> names of its metrics, of every installed package."""
    sets = plugins.registered(plugins.METRICS)
    return {name: [metric.name for metric in found.metrics] for name, found in sets.items()}


def set_names() -> Mapping[int, str]:
    """The resource sets of the installed packages by number; others keep their number."""
    with contextlib.suppress(Exception):  # a package that is broken must not hide the condition of the pipeline
        return {resource_set_id(name): name for name in registered()}
    return {}


def choices() -> dict[str, tuple[str, ...]]:
    """Key -> the names that it may be, of every installed package."""
    return {key: names for check in _validators() for key, names in check.choices().items()}


def load_checked(path: str | None = None) -> config.Settings:
    """``config.load`` that refuses unknown metrics, kernels and rules as well, naming key and name (ConfigError)."""
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
