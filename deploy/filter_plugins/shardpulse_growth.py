"""Ansible filters for adding and removing machines (pure).

They are functions of the shards' answers and of the plan.

Answers are those of ``shardpulse shards status --json``, as the registered result of a command; the plan is
``shardpulse_plan``'s. No state is kept between two runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_SLOTS = 16_384
_FULL = 0.9  #: of the others' limit: more would be evicted, or refused, while partitions move


class FilterModule:
    """Filters loaded by Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {
            "shardpulse_joining": joining,
            "shardpulse_leaving": leaving,
            "shardpulse_dead": dead,
            "shardpulse_crowded": crowded,
            "shardpulse_restless": restless,
            "shardpulse_misplaced": misplaced,
            "shardpulse_stale": stale,
            "shardpulse_unsettled": unsettled,
        }


def joining(
    asked: Mapping[str, Any], planned: Mapping[str, Sequence[str]], strangers: Sequence[str]
) -> dict[str, list[str]]:
    """Roles of planned servers that run and are not members, the ``strangers``.

    As many as the cluster lacks masters become masters, first those planned as masters; the others become replicas.
    Returns ``members`` (servers that answer), ``masters``, ``replicas``, and ``half``: members that were about to
    become replicas when the run was interrupted.
    """
    rows = _serving(asked)
    alone = {row["address"] for row in rows if row["role"] == "master" and not row["slots"]}
    empty = [address for address in planned["masters"] if address in alone]
    owning = [row for row in rows if row["slots"]]
    missing = max(0, len(planned["masters"]) - len(owning) - len(empty))
    masters = [address for address in strangers if address in planned["masters"]][:missing]
    return {
        "members": [row["address"] for row in rows],
        "masters": masters,
        "replicas": [address for address in strangers if address not in masters],
        "half": [address for address in planned["replicas"] if address in alone],
    }


def leaving(asked: Mapping[str, Any], planned: Mapping[str, Any], host: str, replicas: int) -> dict[str, list[str]]:
    """Plan of drain.yml for the shards of a live ``host``, if each master has ``replicas`` elsewhere.

    Returns ``problems`` (in words; the rest is valid only without any), ``masters`` and ``replicas`` that leave,
    ``free`` (servers of other hosts that then follow no master) and ``staying`` (members of other hosts).
    """
    rows = _rows(asked)
    here = planned["addresses"][host]
    going = [row for row in rows if row["answering"] and _host(row["address"]) == here]
    staying = [row for row in _serving(asked) if _host(row["address"]) != here]
    masters = [row["address"] for row in going if row["role"] != "replica"]
    free = [row for row in staying if row["replica_of"] in masters] + _alone(rows, here)
    problems = [f"{row['address']} does not answer: {row['problem']}" for row in rows if not row["answering"]]
    # it and the others have lost contact: nothing can be moved off it, and the owner of partitions must not be stopped
    problems += [
        f"{row['address']} answers and does not see the others (its cluster is {row['cluster_state']}): "
        "wait, or see its bus"
        for row in going
        if row["cluster_state"] != "ok" and (row["slots"] or row["role"] == "replica")
    ]
    if not _serving(asked):
        problems.append(f"no shard serves: {asked.get('stderr') or 'see `shardpulse shards status`'}")
    elif going:
        problems += _unheld(going, staying, free, planned, host, replicas)
    return {
        "problems": problems,
        "masters": masters,
        "replicas": [row["address"] for row in going if row["role"] == "replica"],
        "free": [row["address"] for row in free],
        "staying": [row["address"] for row in staying if row["replica_of"] not in masters],
    }


def dead(asked: Mapping[str, Any], planned: Mapping[str, Sequence[str]], address: str) -> dict[str, list[str]]:
    """Servers to be forgotten by the shards in replace.yml: ``dead``, those at ``address``, none if all of these
    answer, as after an earlier run. ``problems`` in words, and ``staying``, members that answer. Planned servers that
    do not answer yet, or run without knowing others, belong to the new machine, from an interrupted run."""
    rows = _rows(asked)
    there = [row for row in rows if _host(row["address"]) == address]
    alive = [row["address"] for row in there if row["answering"]]
    gone = [row["address"] for row in there if not row["answering"]]
    serving = _serving(asked)
    coming = {*planned["masters"], *planned["replicas"]}
    others = [row["address"] for row in rows if not row["answering"] and row["address"] not in coming]
    problems = []
    if alive and gone:
        problems.append(f"{', '.join(alive)} answers: {address} is not dead; drain.yml takes a machine out that lives")
    if not there and others:
        problems.append(f"no member is at {address}; who does not answer: {', '.join(others)}; correct -e dead=ADDRESS")
    if not any(row["answering"] for row in rows if row not in there):
        problems.append(f"no other shard answers: {asked.get('stderr') or 'see `shardpulse shards status`'}")
    # members still report themselves well if partitions have no owner (cluster-require-full-coverage is no)
    elif (owned := sum(row["slots"] for row in serving if row["role"] != "replica")) != _SLOTS:
        problems.append(
            f"not all partitions are served, {_SLOTS - owned} of {_SLOTS} slots have no owner: no replica has taken "
            "over (yet) what lay there; `shardpulse shards status` shows it, docs/machines.md says what to do with a "
            "shard that had no replica"
        )
    return {
        "problems": problems,
        "dead": gone,
        "staying": [row["address"] for row in serving if row not in there],
    }


def crowded(asked: Mapping[str, Any], planned: Mapping[str, Any]) -> list[dict[str, str]]:
    """Masters to hand over to replicas (``from``, ``to``), so that each host has its planned number of
    masters: from hosts with more of them to a replica in sync on one with fewer."""
    rows = [row for row in _rows(asked) if row["answering"]]
    wanted = _counted(_host(address) for address in planned["masters"])
    has = _counted(_host(row["address"]) for row in rows if row["slots"])
    steps = []
    for row in rows:
        to, master = _host(row["address"]), row["replica_of"]
        if row["role"] != "replica" or not row["in_sync"] or not master:
            continue
        source = _host(master)
        if has.get(source, 0) > wanted.get(source, 0) and has.get(to, 0) < wanted.get(to, 0):
            steps.append({"from": master, "to": row["address"]})
            has[source], has[to] = has[source] - 1, has.get(to, 0) + 1
    return steps


def restless(asked: Mapping[str, Any]) -> list[str]:
    """Shards that do not serve, or lag behind their masters, in words; upgrade.yml waits until there are none."""
    rows = _rows(asked)
    found = [] if rows else [asked.get("stderr") or "no shard answers"]
    for row in rows:
        if not row["answering"]:
            found.append(f"{row['address']} does not answer")
        elif row["cluster_state"] != "ok":
            found.append(f"{row['address']} says that the cluster is {row['cluster_state']}")
        elif row["role"] == "replica" and not row["in_sync"]:
            found.append(f"{row['address']} is not in sync with {row['replica_of']}")
    return found


def misplaced(asked: Mapping[str, Any], planned: Mapping[str, Any], replicas: int | str) -> list[str]:
    """Shards that do not serve, masters with fewer than ``replicas`` in sync, and replicas in the
    failure domain of their master, in words. verify.yml requires that there are none."""
    rows = [row for row in _rows(asked) if row["answering"]]
    following = [row for row in rows if row["role"] == "replica" and row["in_sync"]]
    found = restless(asked)
    for master in rows:
        own = [row for row in following if row["replica_of"] == master["address"]]
        if master["slots"] and len(own) < int(replicas):
            found.append(
                f"{master['address']} has {len(own)} of {replicas} replicas in sync; site.yml gives it what it lacks"
            )
        domain = _together(_host(master["address"]), planned["together"])
        found += [
            f"{row['address']} lies in the failure domain of its master {master['address']}; site.yml moves it"
            for row in own
            if _together(_host(row["address"]), planned["together"]) == domain
        ]
    return found


def unsettled(asked: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    """Problems of the pipeline, from the result of ``shardpulse status --json``. A silent probe of a host that is not
    one of ``hosts`` does not count: it may be dead, and is listed for ten minutes."""
    try:
        told = json.loads(asked.get("stdout") or "{}")
    except ValueError:
        told = {}
    if not isinstance(told, dict) or "findings" not in told:
        return [asked.get("stderr") or "`shardpulse status` does not answer"]
    return [
        f"{one['about']}: {one['text']}"
        for one in told["findings"]
        if one["kind"] != "note" and not (one["kind"] == "stale" and _is_stranger(one["about"], hosts))
    ]


def _is_stranger(about: str, hosts: Sequence[str]) -> bool:
    kind, _, name = about.partition(" ")
    return kind == "host" and name not in hosts


def stale(found: Mapping[str, Any], instances: Sequence[Mapping[str, Any]]) -> list[int]:
    """The ports of a host's shards, replicas first, with processes that are out of date: server,
    configuration or unit has been replaced. ``found`` is from ``host_facts``, ``instances`` from the plan."""
    ports = [one["port"] for one in sorted(instances, key=lambda one: one["role"] == "master")]
    return [port for port in ports if found["units"].get(f"shardpulse-shard@{port}.service", {}).get("stale")]


def _unheld(
    going: Sequence[Mapping[str, Any]], staying: Sequence[Mapping[str, Any]], free: Sequence[Mapping[str, Any]],
    planned: Mapping[str, Any], host: str, replicas: int,
) -> list[str]:  # fmt: skip
    """Reasons the remaining masters cannot take the data of ``going``."""
    owning = [row for row in staying if row["slots"]]
    if not owning:
        return [f"{host} holds everything: put another machine into shards first, grow.yml"]
    problems = []
    servers = {row["address"]: row for row in (*staying, *free) if not row["slots"]}
    lacking = _lacking(owning, list(servers.values()), planned["together"], replicas)
    if lacking:
        problems.append(
            f"without {host} {lacking} server(s) in other failure domains are lacking for {replicas} replica(s) of "
            "each master: put another machine into shards first, grow.yml; or lower redis_shard_replicas"
        )
    used = sum(row["memory_bytes"] for row in (*going, *owning) if row["slots"])
    limit = sum(row["memory_limit_bytes"] for row in owning)
    if used > _FULL * limit and all(row["memory_limit_bytes"] for row in owning):  # 0: no limit
        problems.append(
            f"without {host} the masters may hold {limit >> 20} MiB, and {used >> 20} are used: raise "
            "redis_shard_maxmemory, or put another machine into shards first, grow.yml"
        )
    return problems


def _lacking(
    owning: Sequence[Mapping[str, Any]], servers: Sequence[Mapping[str, Any]], together: Sequence[str], replicas: int
) -> int:
    """Number of replicas that cannot be placed: a server serves one master of another place, and a place has one
    replica of it. Maximum shortfall over the masters of each place, and of all (no other cut limits the flow more)."""
    masters = _counted(_together(_host(row["address"]), together) for row in owning)
    has = _counted(_together(_host(row["address"]), together) for row in servers)
    total = sum(masters.values())
    short = [replicas * total - sum(min(count, total - masters.get(place, 0)) for place, count in has.items())]
    for place, count in masters.items():
        short.append(replicas * count - sum(min(number, count) for other, number in has.items() if other != place))
    return max(0, *short)


def _alone(rows: Sequence[Mapping[str, Any]], here: str) -> list[Mapping[str, Any]]:
    """Servers of other hosts that run without knowing others: freed by an interrupted run."""
    return [
        row
        for row in rows
        if row["answering"] and row["cluster_state"] != "ok" and not row["slots"] and row["role"] != "replica"
        and _host(row["address"]) != here
    ]  # fmt: skip


def _together(host: str, groups: Sequence[str]) -> str:
    return next((group for group in groups if host in group.split(",")), host)


def _counted(hosts: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for host in hosts:
        found[host] = found.get(host, 0) + 1
    return found


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def _rows(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        told = json.loads(asked.get("stdout") or "{}")
    except ValueError:
        return []
    rows: list[dict[str, Any]] = told.get("shards", []) if isinstance(told, dict) else []
    return rows


def _serving(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [row for row in _rows(asked) if row["answering"] and row["cluster_state"] == "ok"]
