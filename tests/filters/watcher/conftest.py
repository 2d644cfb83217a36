"""python-watcher is imported once, before any test: it has the warnings of everybody shown by a filter of its own, put
before those of pyproject.toml, and so those of the packages that it needs."""

from __future__ import annotations

import importlib
import warnings

with warnings.catch_warnings(record=True):
    for _name in (
        "watcher.common.clients",
        "watcher.decision_engine.loading.default",
        "watcher.decision_engine.scoring.scoring_factory",
        "watcher.decision_engine.strategy.strategies.noisy_neighbor",
    ):
        importlib.import_module(_name)
