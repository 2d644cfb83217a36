"""Ansible filters that decide, from the inventory and what was found on hosts: pure functions.

``shardpulse_plan`` says which shards there are, where, and what is wrong with the inventory; the others what is wrong
with a host or with what the shards answered, in words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

GROUPS = ("shards", "filters", "servers", "archives", "probes", "observers")
#: Of parts that need an environment: the extra of the package.
EXTRAS = {"archives": "archive", "filters": "filter", "probes": "probe", "servers": "serve"}
#: Of /etc/os-release.
SUPPORTED = {("debian", "12"): "Debian 12", ("debian", "13"): "Debian 13"}
_LAST_PORT = 55_535  #: the bus has its port + 10000
_MOST_CORES = 4_096
_REPLICAS_AT = 100  #: above a master's port, and the next replica of the same core as much above that
_SLOTS = 16_384
#: In words of the product: the server is of another authority, or the password is not the user's.
_FOREIGN = ("has a certificate that no authority in", "WRONGPASS")
_OVER = "has a certificate that has expired"
_ROOM = 32 << 20  #: bytes that a file system has to have free for configurations and data


class Place(NamedTuple):
    """Where a shard lies."""

    host: str
    address: str
    domain: str
    core: int


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {
            "shardpulse_plan": plan,
            "shardpulse_unfit": unfit,
            "shardpulse_clock": clock,
            "shardpulse_full": full,
            "shardpulse_taken": taken,
            "shardpulse_unheld": unheld,
            "shardpulse_running": running,
            "shardpulse_refused": refused,
            "shardpulse_expired": expired,
            "shardpulse_ending": ending,
            "shardpulse_strangers": strangers,
            "shardpulse_unwell": unwell,
            "shardpulse_stopping": stopping,
            "shardpulse_leftovers": leftovers,
            "shardpulse_unseen": unseen,
        }


def plan(
    groups: Mapping[str, Sequence[str]], hostvars: Mapping[str, Mapping[str, Any]], replicas: int = 0, port: int = 7600
) -> dict[str, Any]:
    """Which shards there are, from the inventory's groups and variables.

    A host of ``shards`` has a master per entry of its ``redis_shard_cores``; each master has ``replicas`` replicas, on
    hosts of other failure domains in turn. Returns ``problems`` (in words; the rest counts only without any),
    ``masters`` and ``replicas`` (addresses, as ``shards form`` wants them), ``instances`` (by host: port, core and
    role; they stay what they are when hosts, or entries of ``redis_shard_cores``, come after them), ``addresses`` (by
    host), ``parts`` (the roles of each host), ``environment`` (the name of each host's, "" for none), ``extras`` (of
    each environment) and ``together`` (addresses of hosts that may fail at once, with commas between them).
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
        "masters": masters,
        "replicas": followers,
        "instances": instances,
        "addresses": addresses,
        "parts": parts,
        "environment": environments,
        "together": _together(shards, addresses, hostvars),
        "extras": {name: [EXTRAS[part] for part in name.split("-")] for name in set(environments.values()) if name},
    }


def _together(
    shards: Sequence[str], addresses: Mapping[str, str], hostvars: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    domains: dict[str, list[str]] = {}
    for host in shards:
        domains.setdefault(str(hostvars[host].get("redis_shard_failure_domain", host)), []).append(addresses[host])
    return [",".join(group) for group in domains.values() if len(group) > 1]


def address_of(host: str, variables: Mapping[str, Any]) -> str:
    """By what other hosts reach this one."""
    return str(variables.get("shardpulse_address") or variables.get("ansible_host") or host)


def bare(facts: str) -> dict[str, str]:
    """``KEY=VALUE`` lines, as a shell prints them: what was found on a host before Python is known to be there."""
    pairs = (line.strip().partition("=") for line in facts.splitlines() if "=" in line)
    return {key: value.strip('"') for key, _, value in pairs}


def unfit(facts: str) -> list[str]:
    """Why the roles can do nothing with a host, from ``KEY=VALUE`` lines that its shell printed: system and version,
    python, uid, sudo, systemd."""
    found = bare(facts)
    system = (found.get("os", "?"), found.get("version", "?"))
    problems = []
    if system not in SUPPORTED:
        problems.append(f"it runs {' '.join(system)}; the roles know {' and '.join(SUPPORTED.values())}")
    if not found.get("python"):
        problems.append("it has no /usr/bin/python3: apt-get install python3")
    if found.get("uid") != "0" and found.get("sudo") == "none":
        problems.append("it has no sudo, and its user is not root: apt-get install sudo, or set ansible_user to root")
    if not found.get("systemd"):
        problems.append("it was not started by systemd, which runs all parts")
    return problems


def clock(found: Mapping[str, Any], received: float, allowed: float, synchronised: bool) -> list[str]:
    """What is wrong with a host's clock: ``found["sent"]`` and ``received`` are the controller's before and after
    ``found["time"]`` was read, so that how long asking took does not count."""
    off = min(found["time"] - found["sent"], 0.0) or max(found["time"] - received, 0.0)
    if abs(off) > allowed:
        word = "behind" if off < 0 else "ahead of"
        return [f"its clock is {abs(off):.0f} s {word} this machine's: synchronise it (chrony), then run again"]
    if synchronised and not found["synchronised"]:
        return ["its clock is not synchronised: see `chronyc tracking`, or set common_synchronised to false"]
    return []


def full(found: Mapping[str, Any], wheels: int) -> list[str]:
    """Which file systems of a host have no room; ``wheels`` are the bytes of what is yet to be installed in /opt, which
    take six times as much unpacked and compiled."""
    return [
        f"the disk of {path} has {free >> 20} MiB free, {needed >> 20} are needed: make room there"
        for path, free in found["free"].items()
        if 0 <= free < (needed := _ROOM + (6 * wheels if path == "/opt" else 0))
    ]


def taken(found: Mapping[str, Any], ports: Mapping[Any, str]) -> list[str]:
    """Which ``ports`` (port -> the unit that shall listen there) somebody else has."""
    owners = {port: found["ports"].get(str(port)) for port in ports}
    return [
        f"port {port} is taken by {owner}: end it, or choose another port"
        for port, owner in owners.items()
        if owner is not None and owner != ports[port]
    ]


def unheld(
    found: Mapping[str, Any], instances: Sequence[Mapping[str, Any]], address: str, memory: int, quiet: bool = False
) -> list[str]:
    """Why a host cannot hold its shards: ``instances`` of the plan at ``address``, of ``memory`` bytes each; ``quiet``:
    interrupts shall go to cores without shards."""
    problems = taken(found, {one["port"]: f"shardpulse-shard@{one['port']}.service" for one in instances})
    missing = sorted({one["core"] for one in instances} - set(found["cores"]))
    if missing:
        there = ", ".join(map(str, found["cores"]))
        problems.append(f"core {missing[0]} does not exist: it has {there}; correct redis_shard_cores")
    closed = sorted({one["core"] for one in instances} - set(found["usable"]) - set(missing))
    if closed:
        there = ", ".join(map(str, found["usable"]))
        problems.append(
            f"core {closed[0]} is kept from services of systemd, which have {there}: correct redis_shard_cores"
        )
    if quiet and set(found["cores"]) <= {one["core"] for one in instances}:
        problems.append("each of its cores has a shard, none is left for interrupts: set redis_shard_quiet to false")
    if found["addresses"] and _is_numeric(address) and address not in found["addresses"]:
        problems.append(f"it has no address {address}, only {', '.join(found['addresses'])}: set shardpulse_address")
    if memory * len(instances) > found["memory"]:
        problems.append(
            f"its shards may take {memory * len(instances) >> 20} MiB and it has {found['memory'] >> 20}: "
            "lower redis_shard_maxmemory"
        )
    return problems


def running(planned: Mapping[str, Any], hostvars: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Addresses of the planned shards whose units run, from what ``host_facts`` found on their hosts; those of hosts
    that were not looked at are left out."""
    found = []
    for host, instances in planned["instances"].items():
        units = hostvars[host].get("common_found", {}).get("host", {}).get("units", {})
        for one in instances:
            unit = units.get(f"shardpulse-shard@{one['port']}.service", {})
            if unit.get("ActiveState") == "active":
                found.append(_at(planned["addresses"][host], one["port"]))
    return found


def refused(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """What shards that run have against the controller's secrets, from results of ``shards status --json``: that they
    are of another authority, or do not know a password. What else may be wrong with a shard is not told here."""
    return [text for text in _said(asked) if any(mark in text for mark in _FOREIGN)]


def expired(asked: Sequence[Mapping[str, Any]], planned: Mapping[str, Any]) -> list[str]:
    """Which hosts' running shards show a certificate that has expired, from the same results."""
    told = _said(asked)
    return [
        f"{host}: its running shards show a certificate that has expired"
        for host, address in planned["addresses"].items()
        if any(_OVER in text and (f"shard {address}:" in text or f"shard [{address}]:" in text) for text in told)
    ]


def ending(shown: Mapping[str, Any], planned: Mapping[str, Any]) -> list[str]:
    """The lines of ``certificates show`` that are about a certificate which ends, with the name of its host before
    them, and what went wrong."""
    hosts = {address: host for host, address in planned["addresses"].items()}
    lines = [line for line in shown.get("stdout_lines", ()) if not line.endswith("; valid")]
    names = [hosts.get(line.partition(".pem: ")[0].rpartition("/")[2], "") for line in lines]
    told = [f"{name}: {line}" if name else line for name, line in zip(names, lines, strict=True)]
    return [*told, *shown.get("stderr_lines", ())]


def _said(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with shards, once each: from results of ``shards status --json``."""
    told = []
    for result in asked:
        told += result.get("stderr", "").removeprefix("shardpulse: ").split("; ")
        told += [row.get("problem") or "" for row in _rows(result)]
    return list(dict.fromkeys(text.strip() for text in told))


def strangers(asked: Mapping[str, Any], planned: Mapping[str, Sequence[str]]) -> list[str]:
    """Which planned shards are no members of the cluster, from the result of ``shards status --json``; all of them
    where it has no cluster yet."""
    wanted = [*planned["masters"], *planned["replicas"]]
    rows = _rows(asked)
    known = {row["address"] for row in rows if row["answering"] and row["cluster_state"] == "ok"}
    owned = sum(row["slots"] for row in rows if row["answering"] and row["role"] != "replica")
    return wanted if owned != _SLOTS else [address for address in wanted if address not in known]


def _rows(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        return list(json.loads(asked.get("stdout") or "{}").get("shards", []))
    except ValueError:
        return []


def unwell(found: Mapping[str, Any], wanted: Mapping[str, str], secrets: Mapping[str, str]) -> list[str]:
    """What is wrong with units and files of a host that should be well. ``wanted``: unit -> list of CPUs that it has
    to be on, "" for any; ``secrets``: file -> "MODE OWNER GROUP"."""
    problems = []
    for name, cpus in wanted.items():
        unit = found["units"].get(name, {})
        state = f"{unit.get('ActiveState', 'absent')} ({unit.get('SubState', '-')}, {unit.get('Result', '-')})"
        if unit.get("ActiveState") != "active":
            problems.append(f"{name} is {state}: journalctl -u {name}")
        elif unit.get("UnitFileState") != "enabled":
            problems.append(f"{name} is {unit.get('UnitFileState')}, not enabled: it will not start with the host")
        elif cpus and unit["cpus"] != [cpus]:
            problems.append(f"{name} runs on CPUs {' and '.join(unit['cpus'])}, not on {cpus}")
        elif unit.get("environment") and unit["environment"] != found["environment"]:
            problems.append(f"{name} runs an older environment, {unit['environment']}: systemctl restart {name}")
    for path, rights in secrets.items():
        file = found["files"].get(path)
        has = f"{file['mode']} {file['owner']} {file['group']}" if file else "absent"
        if has != rights:
            problems.append(f"{path} is {has}, not {rights}")
    return problems


def stopping(found: Mapping[str, Any]) -> list[str]:
    """The units of a host in the order in which they end: senders before what they send to, the firewall last."""
    ranks = ("probe", "serve", "archive", "filter", "shard@", "firewall", "interrupts")
    names = [name for name, unit in found["units"].items() if name.startswith("shardpulse-") and _exists(unit)]

    def rank(name: str) -> tuple[int, str]:
        place = name.removeprefix("shardpulse-")
        return next((number for number, word in enumerate(ranks) if place.startswith(word)), len(ranks)), name

    return sorted(names, key=rank)


def leftovers(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """What ``host_files`` has to remove of a host: all that the roles and the units have made, and the mask."""
    masked = found["units"].get("redis-server.service", {}).get("UnitFileState") == "masked"
    mask = ["/etc/systemd/system/redis-server.service"] if masked else []
    return [{"path": path, "kind": "absent"} for path in [*found["places"], *mask]]


def _exists(unit: Mapping[str, Any]) -> bool:
    return unit.get("ActiveState") == "active" or unit.get("UnitFileState", "") not in {"", "bad"}


def unseen(answer: Mapping[str, Any], hosts: Sequence[str], column: str = "host") -> list[str]:
    """Which of ``hosts`` have no current row in an answer of ``shardpulse query --json``."""
    seen = {row[column] for row in answer.get("rows", ()) if row.get("state") == "current"}
    return [host for host in hosts if host not in seen]


def _missing_groups(groups: Mapping[str, Sequence[str]]) -> list[str]:
    problems = []
    if not groups.get("shards"):
        problems.append("there is no shard: put at least one host into the group shards")
    if groups.get("shards") and not groups.get("filters"):
        problems.append("there is no filter: put at least one host into the group filters")
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


def _port_of_replica(instances: Mapping[str, list[dict[str, Any]]], place: Place, master: int) -> int:
    """The port of the next replica on a core whose own master listens at ``master``: it stays the same when cores or
    hosts come after it, so that no running shard changes."""
    level = len([one for one in instances[place.host] if one["core"] == place.core and one["role"] == "replica"])
    return master + _REPLICAS_AT * (1 + level)


def _enter(instances: dict[str, list[dict[str, Any]]], place: Place, port: int, role: str) -> str:
    """Enter a shard on its host; its address."""
    instances[place.host].append({"port": port, "core": place.core, "role": role})
    return _at(place.address, port)


def _at(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _replicas(masters: Sequence[Place], count: int) -> tuple[list[Place], list[str]]:
    """For each master in turn a place elsewhere, ``count`` times over: the order of ``shards form``."""
    chosen: list[Place] = []
    load: dict[tuple[str, int], int] = {}
    used: dict[int, set[str]] = {number: {master.domain} for number, master in enumerate(masters)}
    for _ in range(count):
        for number, master in enumerate(masters):
            # beginning after the master, so that neighbours' replicas lie on different hosts
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


def _is_numeric(address: str) -> bool:
    return ":" in address or address.replace(".", "").isdigit()
