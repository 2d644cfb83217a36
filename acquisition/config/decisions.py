"""The tables [decisions] and [decisions.policy]: how hot hosts are found and moves are proposed."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from acquisition.config.schema import Meta, Table

Labels = dict[str, str | bool]


class Policy(Table):
    """Limits on proposals that hold whatever rule, selection and placement are chosen."""

    headroom: Annotated[
        float, Meta(ge=0, lt=1, description="of each resource this ratio stays free on a destination")
    ] = 0.15
    margin: Annotated[
        float,
        Meta(ge=0.01, le=0.5, description="a destination ends so far below the level at which the rule calls it cool"),
    ] = 0.05
    resources: Annotated[
        list[Literal["cpu_busy_ratio", "memory_used_ratio", "network_used_ratio"]],
        Meta(min_length=1, description="what a destination is checked for; where one is MISSING it takes no VM"),
    ] = field(default_factory=lambda: ["cpu_busy_ratio", "memory_used_ratio"])
    least_gain: Annotated[
        float, Meta(ge=0, le=1, description="a VM that frees less of what its host lacks is not moved")
    ] = 0.01
    moves_per_host: Annotated[
        int, Meta(ge=1, le=1000, description="migrations at a time from or to one host, those in progress included")
    ] = 1
    moves: Annotated[int, Meta(ge=1, le=10_000, description="proposals at a time in all")] = 100
    cool_down_seconds: Annotated[
        float, Meta(ge=0, le=86400, description="a VM that migrated, or failed to, stays for so long")
    ] = 600.0
    settle_seconds: Annotated[
        float,
        Meta(ge=0, le=3600, description="a host gives and takes no VM for so long after a migration from or to it"),
    ] = 12.0
    young_seconds: Annotated[
        float, Meta(ge=0, le=86400, description="a VM observed for less is not moved: its window is not full")
    ] = 30.0
    migration_seconds: Annotated[
        float, Meta(gt=0, le=86400, description="a migration whose end is not reported by then is given up on")
    ] = 600.0
    tries_per_host: Annotated[
        int, Meta(ge=1, le=1000, description="VMs of one hot host for which a destination is looked for")
    ] = 5


class Decisions(Table):
    """Which hosts are hot, which VM moves, and where to."""

    rule: Annotated[
        str,
        Meta(description="how hot hosts are detected"),
    ] = "threshold"
    selection: Annotated[str, Meta(description="how the VM to move is chosen")] = "most_cpu"
    placement: Annotated[str, Meta(description="how its destination is chosen")] = "least_loaded"
    entities: Annotated[
        Literal["vms", "processes"],
        Meta(description='what is moved; "processes" where the VMs are watched as processes by their command'),
    ] = "vms"
    parameters: Annotated[
        dict[str, dict[str, str | bool | int | float | list[str]]],
        Meta(description="of rules: rule = { parameter = value }; `shardpulse query hot --help` names them"),
    ] = field(default_factory=dict)
    hosts: Annotated[
        dict[str, Labels],
        Meta(description='labels of hosts by name or id, * and ? allowed: cordoned, groups = "a,b", or your own'),
    ] = field(default_factory=dict)
    vms: Annotated[
        dict[str, Labels],
        Meta(description="labels of VMs by name or uuid, * and ? allowed: pinned, group, anti_affinity, or your own"),
    ] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
