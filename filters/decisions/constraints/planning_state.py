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
    """``hosts`` are as projected: with the load of VMs that are on their way to them, or have been
    proposed to be. ``moving`` counts migrations in progress and proposals per host id, ``leaving`` are
    (host id, VM id) of those in progress, ``unknown`` the hosts that a VM is on its way to whose load nobody
    knows. ``touched`` is when a VM last left or reached a host for good, ``now`` the clock of the log of migrations,
    ``mates`` where VMs are that belong together or apart, ``under_way`` how many VMs migrate already."""

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
