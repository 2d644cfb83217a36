"""Registration of the datasource with Watcher.

Watcher 17.0 has no entry points for datasources: ``DataSourceManager`` finds them in its class attribute
``metric_map`` and as attributes of its own name. ``register`` adds ours to both, beside the
others. ``Plugin`` makes Watcher call it: the decision engine loads every scoring engine container
(entry points ``watcher_scoring_engine_containers``) while it starts, before any strategy, and ours
contains no scoring engine. The configuration then only has to name it:

    [watcher_strategies.workload_stabilization]
    datasources = shardpulse

The global ``[watcher_datasources] datasources`` cannot: every service of Watcher checks it while it
parses its command line, before plugins are loaded, and refuses a name that it does not know.
"""

from __future__ import annotations

import logging
from typing import Any

from watcher.decision_engine.datasources.manager import DataSourceManager
from watcher.decision_engine.scoring.base import ScoringEngineContainer

from filters.watcher.datasource import NAME, ShardpulseHelper

LOG = logging.getLogger(__name__)
_MADE = "_shardpulse"


def register() -> None:
    """Make ``shardpulse`` one of the datasources available to strategies. May be repeated."""
    DataSourceManager.metric_map.setdefault(NAME, ShardpulseHelper.METRIC_MAP)
    setattr(DataSourceManager, NAME, property(_helper))


def _helper(manager: Any) -> ShardpulseHelper:
    """The manager's datasource, created on first use.

    The manager silently continues with the next datasource after any exception, so it is logged here.
    """
    made: ShardpulseHelper | None = manager.__dict__.get(_MADE)
    if made is None:
        try:
            made = manager.__dict__[_MADE] = ShardpulseHelper()
        except Exception:
            LOG.exception("datasource shardpulse is unavailable")
            raise
    return made


class Plugin(ScoringEngineContainer):  # type: ignore[misc]  # Watcher has no annotations
    """A container of no scoring engines: Watcher loads it, and with it the datasource."""

    @classmethod
    def get_scoring_engine_list(cls) -> list[Any]:
        """An empty list."""
        return []


register()
