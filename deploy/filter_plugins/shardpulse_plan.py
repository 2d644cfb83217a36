"""Ansible filters that plan the shards from the inventory, and check it (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

GROUPS = ("shards", "filters", "servers", "archives", "probes", "observers")
#: Extra of the package by part, for parts with an environment.
EXTRAS = {"archives": "archive", "filters": "filter", "probes": "probe", "servers": "serve"}
_LAST_PORT = 55_535  #: the bus has its port + 10000
_MOST_CORES = 4_096
_REPLICAS_AT = 100  #: offset from a master's port, and again for each further replica of the same core


class Place(NamedTuple):
    """Place of a shard."""

    host: str
    address: str
    domain: str
    core: int


class FilterModule:
    """Filters loaded by Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {"shardpulse_plan": plan, "shardpulse_running": running}


def plan(
    groups: Mapping[str, Sequence[str]], hostvars: Mapping[str, Mapping[str, Any]], replicas: int = 0, port: int = 7600
) -> dict[str, Any]:
    """Planned shards, from the inventory's groups and variables.

    A host of ``shards`` has a master per entry of its ``redis_shard_cores``; each master has ``replicas`` replicas, on
    hosts of other failure domains in turn. Returns ``problems`` (in words; the rest is valid only without any),
    ``groups`` (those known to the roles), ``masters`` and ``replicas`` (addresses, in the form of ``shards form``),
    ``instances`` (by host: port, core and role; unchanged when hosts, or entries of
    ``redis_shard_cores``, are appended), ``addresses`` (by host), ``parts`` (the roles of each host),
    ``environment`` (the name of each host's, "" for none), ``extras`` (of each environment) and ``together``
    (comma-separated addresses of hosts that may fail at once).
    """
    named = sorted({host for group in GROUPS for host in groups.get(group, ())})
    addresses = {host: address_of(host, hostvars[host]) for host in named}
    shards = list(groups.get("shards", ()))
    found = [*_missing_groups(groups), *_shared_addresses(addresses), *_counts(replicas, port)]
    found += _databases(groups, hostvars)
    cores = {host: _whole(hostvars[host].get("redis_shard_cores", [0])) for host in shards}
    found += [problem for host, chosen in cores.items() for problem in _wrong_cores(host, chosen)]
    found += [problem for host in shards for problem in _reserved(host, cores[host], hostvars[host])]
    instances: dict[str, list[dict[str, Any]]] = {host: [] for host in shards}
    masters, followers = [], []
    if not found:
        places = [
            Place(host, addresses[host], str(hostvars[host].get("redis_shard_failure_domain", host)), core)
            for host in shards
            for core in cores[host] or ()
        ]

        def number_of(place: Place) -> int:
            return (cores[place.host] or []).index(place.core)

        masters = [_enter(instances, one, port + number_of(one), "master") for one in places]
        chosen, found = _replicas(places, replicas)
        followers = [
            _enter(instances, one, _port_of_replica(instances, one, port + number_of(one)), "replica") for one in chosen
        ]
        found += [
            f"{host}: port {one['port']} is above {_LAST_PORT}: set redis_shard_port lower"
            for host in shards
            for one in instances[host]
            if one["port"] > _LAST_PORT
        ]
    parts = {host: [group for group in GROUPS if host in groups.get(group, ())] for host in named}
    environments = {host: "-".join(part for part in EXTRAS if part in parts[host]) for host in named}
    return {
        "problems": found,
        "groups": list(GROUPS),
        "masters": masters,
        "replicas": followers,
        "instances": instances,
        "addresses": addresses,
        "parts": parts,
        "environment": environments,
        "together": _together(shards, addresses, hostvars),
        "extras": {name: [EXTRAS[part] for part in name.split("-")] for name in set(environments.values()) if name},
    }


def running(planned: Mapping[str, Any], hostvars: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Addresses of the planned shards with running units, according to ``host_facts`` of their hosts, without
    hosts that were not examined."""
    found = []
    for host, instances in planned["instances"].items():
        units = hostvars[host].get("common_found", {}).get("host", {}).get("units", {})
        for one in instances:
            unit = units.get(f"shardpulse-shard@{one['port']}.service", {})
            if unit.get("ActiveState") == "active":
                found.append(_at(planned["addresses"][host], one["port"]))
    return found


def address_of(host: str, variables: Mapping[str, Any]) -> str:
    """Address of this host for other hosts."""
    return str(variables.get("shardpulse_address") or variables.get("ansible_host") or host)


def _together(
    shards: Sequence[str], addresses: Mapping[str, str], hostvars: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    domains: dict[str, list[str]] = {}
    for host in shards:
        domains.setdefault(str(hostvars[host].get("redis_shard_failure_domain", host)), []).append(addresses[host])
    return [",".join(group) for group in domains.values() if len(group) > 1]


def _missing_groups(groups: Mapping[str, Sequence[str]]) -> list[str]:
    problems = []
    if not groups.get("shards"):
        problems.append("there is no shard: put at least one host into the group shards")
    if groups.get("shards") and not groups.get("filters"):
        problems.append("there is no filter: put at least one host into the group filters")
    if groups.get("observers") and not groups.get("servers"):
        problems.append("observers have no server to scrape: put at least one host into the group servers")
    return problems


def _databases(groups: Mapping[str, Sequence[str]], hostvars: Mapping[str, Mapping[str, Any]]) -> list[str]:
    archives = groups.get("archives", ())
    owners = [host for host in archives if hostvars[host].get("archive_postgresql")]
    if not owners or len(archives) == 1:
        return []
    return [
        f"{owners[0]}: archive_postgresql is for one host in the group archives, and there are {', '.join(archives)}: "
        "archivers share one database; leave one of them there, or set archive_url to a PostgreSQL that all reach"
    ]


def _shared_addresses(addresses: Mapping[str, str]) -> list[str]:
    owners: dict[str, str] = {}
    problems = []
    for host, address in addresses.items():
        if address in owners:
            problems.append(f"{owners[address]} and {host} have one address, {address}: correct ansible_host")
        owners.setdefault(address, host)
    return problems


def _counts(replicas: Any, port: Any) -> list[str]:
    problems = []
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 0 <= replicas <= 8:
        problems.append(f"redis_shard_replicas is {replicas!r}: a whole number from 0 to 8 is needed")
    if isinstance(port, bool) or not isinstance(port, int) or not 1024 <= port <= _LAST_PORT - 1000:
        problems.append(f"redis_shard_port is {port!r}: a whole number from 1024 to {_LAST_PORT - 1000} is needed")
    return problems


def _whole(value: Any) -> list[int] | None:
    if not isinstance(value, list | tuple):
        return None
    if any(isinstance(core, bool) or not isinstance(core, int) for core in value):
        return None
    return list(value)


def _wrong_cores(host: str, cores: list[int] | None) -> list[str]:
    if not cores:
        return [f"{host}: redis_shard_cores must be a list of numbers of cores, as [0, 1]"]
    if len(set(cores)) != len(cores):
        return [f"{host}: redis_shard_cores names a core twice: one shard per core"]
    if len(cores) > _REPLICAS_AT:
        return [f"{host}: redis_shard_cores has {len(cores)} entries: {_REPLICAS_AT} shards on a host at most"]
    if min(cores) < 0 or max(cores) >= _MOST_CORES:
        return [f"{host}: redis_shard_cores has a core below 0 or above {_MOST_CORES - 1}"]
    return []


def _reserved(host: str, cores: list[int] | None, variables: Mapping[str, Any]) -> list[str]:
    kept = _whole(variables.get("redis_shard_reserved_cores", []))
    if kept is None:
        return [f"{host}: redis_shard_reserved_cores must be a list of numbers of cores, as [0, 1]"]
    both = sorted(set(cores or ()) & set(kept))
    return [
        f"{host}: core {core} is reserved (redis_shard_reserved_cores): take it out of one of both" for core in both
    ]


def _replicas(masters: Sequence[Place], count: int) -> tuple[list[Place], list[str]]:
    """For each master in turn a place elsewhere, repeated ``count`` times: the order of ``shards form``."""
    chosen: list[Place] = []
    load: dict[tuple[str, int], int] = {}
    used: dict[int, set[str]] = {number: {master.domain} for number, master in enumerate(masters)}
    for _ in range(count):
        for number, master in enumerate(masters):
            # starting after the master, so that neighbours' replicas are on different hosts
            rotated = [masters[(number + step) % len(masters)] for step in range(1, len(masters))]
            free = [other for other in rotated if other.domain not in used[number]]
            if not free:
                where = f"{master.host} ({master.address}, core {master.core})"
                return [], [
                    f"the shard on {where} has no other failure domain left for its replica: "
                    "add a host to the group shards, or set redis_shard_replicas lower"
                ]
            best = min(free, key=lambda other: load.get((other.host, other.core), 0))
            load[best.host, best.core] = load.get((best.host, best.core), 0) + 1
            used[number].add(best.domain)
            chosen.append(best)
    return chosen, []


def _port_of_replica(instances: Mapping[str, list[dict[str, Any]]], place: Place, master: int) -> int:
    """Port of the next replica on a core with its own master at port ``master``: it does not change when cores or
    hosts are appended, so that no running shard changes."""
    level = len([one for one in instances[place.host] if one["core"] == place.core and one["role"] == "replica"])
    return master + _REPLICAS_AT * (1 + level)


def _enter(instances: dict[str, list[dict[str, Any]]], place: Place, port: int, role: str) -> str:
    """Add a shard to its host; returns its address."""
    instances[place.host].append({"port": port, "core": place.core, "role": role})
    return _at(place.address, port)


def _at(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
