"""Scenarios: one group of faults on a fitting installation, readers active.

A scenario has the name of its group of kinds (``experiments.chaos.kinds``), which no other run uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from probes.metrics import HOST


class Scenario(NamedTuple):
    """``gaps`` are seconds of peace between two faults, ``options`` those of the installation."""

    help: str
    gaps: tuple[float, float]
    options: Mapping[str, Any]


SCENARIOS: dict[str, Scenario] = {
    "blindness": Scenario(
        "all filters, all probes or a shard are away: no answer calls a live host down, or is calm where no host is "
        "current",
        (0.0, 1.0),
        {"workers": 1, "generators": 2, "archivers": 0, "services": 1, "own_figures": True, "entities": 1,
         "metrics": len(HOST.metrics), "invalid": 0.0},
    ),
    "overload": Scenario(
        "a quarter of the hosts make twice what a slow filter can take: they shed what is too much, which is exactly "
        "what is lost, and values stay fresh",
        (0.0, 1.0),
        {"workers": 1, "archivers": 0, "services": 1, "talkative": True, "entities": 20},
    ),
    "rolling": Scenario(
        "a filter worker or a query service is replaced every half second, ended in order or killed: nothing is lost",
        (0.3, 0.7),
        {"workers": 4, "archivers": 0, "services": 4},
    ),
}  # fmt: skip
