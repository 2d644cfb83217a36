"""Settings of tables [decisions] and [decisions.policy]: hot hosts and moves."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from acquisition.config.schema import Meta, Table

Labels = dict[str, str | bool]


class Policy(Table):
    """Limits on proposed moves, whatever the rule, selection and placement."""

    headroom: Annotated[
        float, Meta(ge=0, lt=1, description="fraction of each resource to keep free on a destination host")
    ] = 0.15
    margin: Annotated[
        float,
        Meta(ge=0.01, le=0.5, description="distance below the rule's cool level at which a destination must end up"),
    ] = 0.05
    resources: Annotated[
        list[Literal["cpu_busy_ratio", "memory_used_ratio", "network_used_ratio"]],
        Meta(
            min_length=1,
            description="resources checked on a destination host, one where any is MISSING takes no VM; the network is "
            "always checked where it is known",
        ),
    ] = field(default_factory=lambda: ["cpu_busy_ratio", "memory_used_ratio"])
    least_gain: Annotated[
        float, Meta(ge=0, le=1, description="minimum fraction of the scarce resource that a moved VM must free")
    ] = 0.01
    moves_per_host: Annotated[
        int,
        Meta(
            ge=1, le=1000, description="maximum concurrent migrations from or to one host, including those in progress"
        ),
    ] = 1
    moves: Annotated[
        int, Meta(ge=1, le=10_000, description="maximum concurrent migrations in all, including those in progress")
    ] = 100
    cool_down_seconds: Annotated[
        float,
        Meta(ge=0, le=86400, description="time after a migration, successful or failed, before the VM may move again"),
    ] = 600.0
    settle_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="time after a migration before its source and destination host are considered again",
        ),
    ] = 12.0
    young_seconds: Annotated[
        float, Meta(ge=0, le=86400, description="minimum observation time before a VM may be moved")
    ] = 30.0
    migration_seconds: Annotated[
        float,
        Meta(gt=0, le=86400, description="timeout after which a migration without a reported end is considered failed"),
    ] = 600.0
    migration_bytes_per_second: Annotated[
        float, Meta(ge=0, le=1e12, description="bandwidth of one migration; 0: what is free of the slower link")
    ] = 0.0
    saturated_seconds: Annotated[
        float,
        Meta(ge=0, le=86400, description="time after which a saturated host gives VMs; 0: it gives none"),
    ] = 60.0
    saturated_waiting: Annotated[
        float,
        Meta(ge=0, le=10_000, description="cores for which its guests must wait in all before it does"),
    ] = 0.25
    new_vm_cpu: Annotated[
        float, Meta(gt=0, le=1, description="fraction of its vCPUs that a new VM is expected to use by default")
    ] = 1.0
    tries_per_host: Annotated[
        int, Meta(ge=1, le=1000, description="maximum number of VMs per hot host for which a destination is searched")
    ] = 5


class Decisions(Table):
    """Decisions: detection of hot hosts and proposed moves of VMs."""

    rule: Annotated[
        str,
        Meta(description="rule that detects hot hosts"),
    ] = "contention"
    selection: Annotated[str, Meta(description="strategy that chooses the VM to move")] = "most_cpu"
    placement: Annotated[str, Meta(description="strategy that chooses its destination")] = "least_loaded"
    entities: Annotated[
        Literal["vms", "processes"],
        Meta(description='entities to move; "processes" if VMs are watched as processes by their command'),
    ] = "vms"
    parameters: Annotated[
        dict[str, dict[str, str | bool | int | float | list[str]]],
        Meta(description="parameters of rules: rule = { parameter = value }; `shardpulse query hot --help` lists them"),
    ] = field(default_factory=dict)
    hosts: Annotated[
        dict[str, Labels],
        Meta(description="labels of hosts by name or id, * and ? allowed: cordoned, maintenance, groups, or your own"),
    ] = field(default_factory=dict)
    vms: Annotated[
        dict[str, Labels],
        Meta(description="labels of VMs by name or uuid, * and ? allowed: pinned, group, affinity …, or your own"),
    ] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
