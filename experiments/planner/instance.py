"""Instances of VMR2L: hosts and VMs of a real cluster, each host emptied.

Ding and others, Towards VM rescheduling optimization through deep reinforcement learning, EuroSys 2025. An instance has
the vCPUs and the memory of each VM, and which VMs may not share a host or may not move. It lacks their use: the loads
of hosts are generated (``world``), and shared by VMs according to vCPUs.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.planner.sight import Sight
from experiments.planner.world import Layout, Size, World
from filters.decisions.constraints.labels import ANTI_AFFINITY, MAINTENANCE, PINNED
from filters.decisions.deciding import judge_all
from filters.decisions.method import Method
from filters.decisions.migrations import Migrations
from filters.decisions.plan import propose

_MIB = float(1 << 20)
_WARM_UP = 60  #: seconds that fill the windows


class Emptied(NamedTuple):
    """Hosts with VMs put into maintenance one by one: all, those with a place for every VM in one plan, and those with
    a place for every VM except pinned ones; VMs without a place, by the first words of the reason."""

    hosts: int
    emptied: int
    but_for_pins: int
    vms: int
    stayed: dict[str, int]


def read(path: Path) -> tuple[Size, Layout]:
    """The cluster of an instance; all of its hosts are alike."""
    cluster = json.loads(path.read_text())["cluster_list"][0]
    rows = {host["node_id"]: row for row, host in enumerate(cluster["host_info"])}
    vms = [vm for vm in cluster["vm_instance"] if vm["host_id"] in rows]
    apart = {
        vm: str(number)
        for number, each in enumerate(cluster["other_requirement"]["deployment_set"])
        for vm in (each["data"] if each["granularity"] == "host" else ())
    }
    place = np.array([rows[vm["host_id"]] for vm in vms])
    vcpus, memory = (np.array([sum(float(part[of]) for part in vm["numa"]) for vm in vms]) for of in ("cpu", "mem_mb"))
    shares = vcpus / np.bincount(place, vcpus, len(rows))[place]
    first = cluster["host_info"][0]
    cores, whole = float(first["node_cpu"]), first["node_mem_mb"] * _MIB
    labels = [
        ({ANTI_AFFINITY: apart[vm["instance_id"]]} if vm["instance_id"] in apart else {})
        | ({} if vm["allow_migration"] else {PINNED: "true"})
        for vm in vms
    ]
    size = Size(len(rows), overloaded=len(rows) // 20, cores=cores, memory=whole)
    return size, Layout(place, shares, memory * _MIB, labels)


def empty_each(size: Size, layout: Layout, seed: int, method: Method) -> Emptied:
    """Put each host into maintenance, one at a time, while all are calm; any number of VMs may move at once."""
    world = World(size, seed, 8, layout)
    sight = Sight(world)
    for second in range(-_WARM_UP, 0):
        world.tick(second)
        sight.look()
    picture = sight.picture()
    heat = judge_all(picture, method.rule, method.parameters)
    wide = method._replace(policy=replace(method.policy, moves_per_host=1000, moves=10_000))
    hosts, emptied, but_for_pins, vms, stayed = 0, 0, 0, 0, Counter[str]()
    for host in picture.hosts:
        if not host.vms:
            continue
        leaving = host._replace(labels={MAINTENANCE: "true"})
        seen = picture._replace(hosts=[leaving if each.id == host.id else each for each in picture.hosts])
        plan = propose(seen, heat, wide, Migrations())
        why = [each.reason.partition(" (")[0] for each in plan.refusals if each.vm is not None]
        hosts, vms, emptied = hosts + 1, vms + len(host.vms), emptied + (len(plan.moves) == len(host.vms))
        but_for_pins += len(plan.moves) == sum(PINNED not in vm.labels for vm in host.vms)
        stayed.update(why)
    return Emptied(hosts, emptied, but_for_pins, vms, dict(stayed))
