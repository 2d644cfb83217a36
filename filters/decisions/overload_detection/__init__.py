"""Overload rules, each in one file with one registration here."""

from __future__ import annotations

from acquisition import plugins
from filters.decisions.overload_detection import (
    contention,
    cusum,
    neat_iqr,
    neat_mad,
    neat_regression,
    sandpiper,
    threshold,
)
from filters.decisions.overload_detection.rule import Rule

REGISTRY: dict[str, Rule] = {
    module.RULE.name: module.RULE
    for module in (contention, threshold, sandpiper, neat_mad, neat_iqr, neat_regression, cusum)
}


def rules() -> dict[str, Rule]:
    """Rules of this project and of other packages (entry point group ``shardpulse.rules``), by name."""
    return plugins.registered(plugins.RULES, REGISTRY)


__all__ = ["REGISTRY", "rules"]
