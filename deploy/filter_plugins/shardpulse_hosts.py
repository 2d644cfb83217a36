"""Ansible filters that describe problems of hosts and of shard answers (pure).

They are functions of the facts found there and of the plan (``shardpulse_plan``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: From /etc/os-release.
SUPPORTED = {("debian", "12"): "Debian 12", ("debian", "13"): "Debian 13"}
_SLOTS = 16_384
#: In words of the product: the server has another authority, or the password is not the user's.
_FOREIGN = ("has a certificate from an authority that is not in", "WRONGPASS")
_OVER = "has a certificate that has expired"
_BUS = 10_000  #: offset from a shard's port to its port for other shards
_ROOM = 32 << 20  #: bytes that a file system must have free for configurations and data


class FilterModule:
    """Filters loaded by Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filters by name."""
        return {
            "shardpulse_unfit": unfit,
            "shardpulse_clock": clock,
            "shardpulse_full": full,
            "shardpulse_uninstallable": uninstallable,
            "shardpulse_taken": taken,
            "shardpulse_unheld": unheld,
            "shardpulse_refused": refused,
            "shardpulse_expired": expired,
            "shardpulse_ending": ending,
            "shardpulse_strangers": strangers,
            "shardpulse_unwell": unwell,
            "shardpulse_stopping": stopping,
            "shardpulse_leftovers": leftovers,
            "shardpulse_unseen": unseen,
        }


def bare(facts: str) -> dict[str, str]:
    """``KEY=VALUE`` lines printed by a shell: facts of a host before Python is known to exist there."""
    pairs = (line.strip().partition("=") for line in facts.splitlines() if "=" in line)
    return {key: value.strip('"') for key, _, value in pairs}


def unfit(facts: str) -> list[str]:
    """Reasons the roles cannot handle a host, from ``KEY=VALUE`` lines printed by its shell: system and version,
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
    """Problems of a host's clock: ``found["sent"]`` and ``received`` are the controller's clock before and after
    ``found["time"]`` was read, so that the duration of the query does not count."""
    off = min(found["time"] - found["sent"], 0.0) or max(found["time"] - received, 0.0)
    if abs(off) > allowed:
        word = "behind" if off < 0 else "ahead of"
        return [f"its clock is {abs(off):.0f} s {word} this machine's: synchronise it (chrony), then run again"]
    if synchronised and not found["synchronised"]:
        return [
            "its clock is not synchronised: apt-get install chrony and see `chronyc tracking`, or set "
            "common_synchronised to false"
        ]
    return []


def full(found: Mapping[str, Any], wheels: int) -> list[str]:
    """File systems of a host without enough space; ``wheels``: bytes still to be installed in /opt,
    which take six times as much unpacked and compiled."""
    return [
        f"the disk of {path} has {free >> 20} MiB free, {needed >> 20} are needed: make room there"
        for path, free in found["free"].items()
        if 0 <= free < (needed := _ROOM + (6 * wheels if path == "/opt" else 0))
    ]


def uninstallable(found: Mapping[str, Any], lacking: Mapping[str, Sequence[str]]) -> list[str]:
    """Reasons packages or the environment of a host cannot be installed. ``lacking``: projects without a wheel in the
    pack for this host, by Python and machine, as returned by the module ``wheelhouse``."""
    problems = [f"its packages cannot be installed: {found['unpackaged']}"] if found["unpackaged"] else []
    python = ".".join(map(str, found["python"]))
    names = ", ".join(lacking.get(f"{python} {found['machine']}", ()))
    if names:
        problems.append(
            f"the wheelhouse has no wheel of {names} for its Python {python} on {found['machine']}: make it again, "
            f"`deploy/build wheelhouse --extra all --python {python}`, with the other hosts' versions after a comma"
        )
    return problems


def taken(found: Mapping[str, Any], ports: Mapping[Any, str]) -> list[str]:
    """Those ``ports`` (port -> unit that is to listen there, or prefix of its name) that are in use by others."""
    owners = {port: found["ports"].get(str(port)) for port in ports}
    return [
        f"port {port} is taken by {owner}: end it, or choose another port"
        for port, owner in owners.items()
        if owner is not None and not owner.startswith(ports[port])
    ]


def unheld(
    found: Mapping[str, Any], instances: Sequence[Mapping[str, Any]], address: str, memory: int, quiet: bool = False
) -> list[str]:
    """Reasons a host cannot hold its shards: ``instances`` of the plan at ``address``, of ``memory`` bytes each;
    ``quiet``: interrupts are to go to cores without shards."""
    units = {one["port"]: f"shardpulse-shard@{one['port']}.service" for one in instances}
    problems = taken(found, units | {port + _BUS: unit for port, unit in units.items()})
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


def refused(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Refusals by running shards of the controller's secrets, from results of ``shards status --json``: another
    authority, or an unknown password. Other problems of a shard are not checked
    here."""
    return [text for text in _said(asked) if any(mark in text for mark in _FOREIGN)]


def expired(asked: Sequence[Mapping[str, Any]], planned: Mapping[str, Any]) -> list[str]:
    """Hosts with running shards that present an expired certificate, from the same results."""
    told = _said(asked)
    return [
        f"{host}: its running shards show a certificate that has expired"
        for host, address in planned["addresses"].items()
        if any(_OVER in text and (f"shard {address}:" in text or f"shard [{address}]:" in text) for text in told)
    ]


def ending(shown: Mapping[str, Any], planned: Mapping[str, Any]) -> list[str]:
    """Lines of ``certificates show`` about certificates that expire soon, each with the name of its host in
    front, and errors."""
    hosts = {address: host for host, address in planned["addresses"].items()}
    lines = [line for line in shown.get("stdout_lines", ()) if not line.endswith("; valid")]
    names = [hosts.get(line.partition(".pem: ")[0].rpartition("/")[2], "") for line in lines]
    told = [f"{name}: {line}" if name else line for name, line in zip(names, lines, strict=True)]
    return [*told, *shown.get("stderr_lines", ())]


def _said(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Problems of shards, once each: from results of ``shards status --json``."""
    told = []
    for result in asked:
        told += result.get("stderr", "").removeprefix("shardpulse: ").split("; ")
        told += [row.get("problem") or "" for row in _rows(result)]
    return list(dict.fromkeys(text.strip() for text in told))


def strangers(asked: Mapping[str, Any], planned: Mapping[str, Sequence[str]]) -> list[str]:
    """Planned shards that are not members of the cluster, from the result of ``shards status --json``; all of them
    if there is no cluster yet."""
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
    """Problems of units and files of a host that should be well. ``wanted``: unit -> list of required CPUs,
    "" for any; ``secrets``: file -> "MODE OWNER GROUP"."""
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
    """Units of a host in stopping order: senders before their receivers, the firewall last."""
    ranks = ("probe", "serve", "archive", "filter", "shard@", "firewall", "interrupts")
    names = [name for name, unit in found["units"].items() if name.startswith("shardpulse-") and _exists(unit)]

    def rank(name: str) -> tuple[int, str]:
        place = name.removeprefix("shardpulse-")
        return next((number for number, word in enumerate(ranks) if place.startswith(word)), len(ranks)), name

    return sorted(names, key=rank)


def leftovers(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """Files that ``host_files`` must remove from a host: all those created by the roles and the units, and the mask."""
    servers = {name: unit for name, unit in found["units"].items() if name.endswith("-server.service")}
    masks = [f"/etc/systemd/system/{name}" for name, unit in servers.items() if unit.get("UnitFileState") == "masked"]
    return [{"path": path, "kind": "absent"} for path in [*found["places"], *masks]]


def _exists(unit: Mapping[str, Any]) -> bool:
    return unit.get("ActiveState") == "active" or unit.get("UnitFileState", "") not in {"", "bad"}


def unseen(answer: Mapping[str, Any], hosts: Sequence[str], column: str = "host") -> list[str]:
    """Hosts of ``hosts`` without a current row in an answer of ``shardpulse query --json``."""
    seen = {row[column] for row in answer.get("rows", ()) if row.get("state") == "current"}
    return [host for host in hosts if host not in seen]


def _is_numeric(address: str) -> bool:
    return ":" in address or address.replace(".", "").isdigit()
