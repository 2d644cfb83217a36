"""Check pipeline: small checks, run in order over each reading.

Each has its own file.

A check is a factory ``(resource_set, settings) -> Check``; the Check is called once per
reading and sets the code of samples that fail. A check only marks samples whose code is
still VALID (the first reason stands) and never changes a value: the raw value is kept.
New check: one file with a CheckKind, one word in _NAMES, one fixture, which is its test.

The whole pipeline runs over every sample of every tick of every host, so a check examines
columns with C-speed built-ins first and single samples only if something is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from math import isnan

from acquisition.model.check_kind import CheckKind
from acquisition.model.codes import MISSING, VALID
from acquisition.model.metric import ResourceSet
from probes.checks.check import Check, CheckSettings, nothing
from probes.sampling.native import COLUMNS
from probes.sampling.reading import Reading

__all__ = ["REGISTRY", "Check", "CheckSettings", "build_pipeline"]

#: The files with the checks, each with a ``CHECK``, in order of execution.
_NAMES = ("range", "reset", "rate", "inconsistent", "stuck", "order", "timeout", "first")
REGISTRY: dict[str, CheckKind] = {name: import_module(f"{__name__}.{name}").CHECK for name in _NAMES}


def build_pipeline(resource_set: ResourceSet, settings: Mapping[str, CheckSettings] | None = None) -> Check:
    """One function that runs all enabled checks over a reading of ``resource_set``.

    ``settings``: check name -> its table, with ``enabled`` (default true) and its
    parameters. Raises KeyError for an unknown check. Checks keep state from reading
    to reading, so every resource set of every host needs its own pipeline. Whatever
    is enabled, no sample without a value leaves as VALID.
    """
    settings = settings or {}
    for name in settings:
        if name not in REGISTRY:
            raise KeyError(name)
    tables = {name: settings.get(name, {}) for name in REGISTRY}
    built = [
        kind.build(resource_set, tables[name]) for name, kind in REGISTRY.items() if tables[name].get("enabled", True)
    ]
    checks = [check for check in built if check is not nothing]

    def pipeline(reading: Reading) -> None:
        for check in checks:
            check(reading)
        _no_value_is_missing(reading)

    return pipeline


def _no_value_is_missing(reading: Reading) -> None:
    codes = reading.codes
    if COLUMNS.unmarked(reading.values, codes):
        for i, value in enumerate(reading.values):
            if codes[i] == VALID and isnan(value):
                codes[i] = MISSING
