"""Planning state: all inputs of a plan, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from acquisition.config.decisions import Policy
from filters.decisions.constraints.mates import Mates
from filters.decisions.migrations import Migrations
from filters.decisions.overload_detection.rule import Parameters, Rule
from filters.decisions.picture import Host
from filters.decisions.verdict import Verdict


class PlanningState(NamedTuple):
    """``hosts``: projected, with the load of VMs on their way to them or proposed to go there. ``moving``: migrations
    in progress and proposals per host id. ``leaving``: (host id, VM id) of those in progress. ``unknown``: hosts that a
    VM of unknown load is on its way to. ``touched``: when a VM last left or reached a host for good. ``now``: clock of
    the log of migrations. ``mates``: places of VMs that belong together or apart. ``under_way``: migrating VMs."""

    hosts: Mapping[str, Host]
    verdicts: Mapping[str, Verdict]
    moving: Mapping[str, int]
    leaving: frozenset[tuple[str, str]]
    unknown: Mapping[str, str]
    touched: Mapping[str, float]
    migrations: Migrations
    rule: Rule
    parameters: Parameters
    policy: Policy
    now: float
    mates: Mates
    under_way: int
