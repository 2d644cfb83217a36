"""An Ansible lookup: the files of all shards of a host, as ``host_files`` takes them, rendered on the controller."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = """
name: shard_files
short_description: Files of the shards of a host
description: Runs C(shardpulse shards render) on the controller, and reads the host's certificate there.
author: [shardpulse]
options:
  _terms: {description: "Shards of the host: port, core.", required: true}
  command: {description: The command shardpulse., type: str, required: true}
  secrets: {description: "Directory of authority, certificates and passwords.", type: str, required: true}
  address: {description: By what clients and other shards find them., type: str, required: true}
  maxmemory: {description: Bytes for data of each., type: int, required: true}
  connections: {description: Clients of each at most., type: int, required: true}
"""
EXAMPLES = """
- name: Write the shards' files
  host_files:
    files: "{{ query('shard_files', *instances, command='shardpulse', secrets='secrets', address='10.0.0.1',
               maxmemory=1073741824, connections=12000) }}"
"""
RETURN = """
_raw: {description: Files., type: list, elements: dict}
"""

_UNIT = "/etc/systemd/system/shardpulse-shard@"
_ANY = "INSTANCE"  #: in paths, for what systemd calls %i


class LookupModule(LookupBase):  # type: ignore[misc]
    """What Ansible looks for."""

    def run(self, terms: list[Any], variables: Any = None, **options: Any) -> list[dict[str, str]]:
        """The files."""
        self.set_options(var_options=variables, direct=options)
        chosen = {name: self.get_option(name) for name in ("command", "secrets", "address", "maxmemory", "connections")}
        try:
            return files(terms, **chosen)
        except OSError as error:
            raise AnsibleLookupError(f"{error.filename}: {error.strerror}") from error


def files(
    instances: Sequence[dict[str, Any]], command: str, secrets: str, address: str, maxmemory: int, connections: int
) -> list[dict[str, str]]:
    """The template unit, and for each instance its directory, configuration, users, certificate, key and cores."""
    place = Path(secrets)
    common = [command, "shards", "render"]
    options = ["--announce", address, "--passwords", str(place / "passwords"), "--maxmemory", str(maxmemory),
               "--connections", str(connections)]  # fmt: skip

    def render(what: str, name: Any, *more: str) -> str:
        where = ["--etc", f"/etc/shardpulse/shard-{name}", "--data", f"/var/lib/shardpulse-shard-{name}"]
        return _printed([*common, what, *options, *where, *more])

    unit = re.sub(r"(?m)^Description=.*", "Description=shardpulse shard at port %i", render("unit", _ANY))
    found = [{"path": f"{_UNIT}.service", "content": unit.replace(_ANY, "%i")}]
    users = render("users", _ANY) if instances else ""
    bind = ["--bind", address] if _is_numeric(address) else []
    for one in instances:
        port, core = str(one["port"]), str(one["core"])
        etc = f"/etc/shardpulse/shard-{port}"
        owned = {"group": "redis", "mode": "0640"}
        issued = place / "shards" / "issued"
        found += [
            {"path": etc, "kind": "directory", "group": "redis", "mode": "0750"},
            {
                "path": f"{etc}/redis.conf",
                "secret": render("configuration", port, "--port", port, "--core", core, *bind),
            }
            | owned,
            {"path": f"{etc}/users.acl", "secret": users} | owned,
            {"path": f"{etc}/ca.pem", "content": (place / "shards" / "ca.pem").read_text()} | owned,
            {"path": f"{etc}/shard.pem", "content": (issued / f"{address}.pem").read_text()} | owned,
            {"path": f"{etc}/shard.key", "secret": (issued / f"{address}.key").read_text()} | owned,
            {"path": f"{_UNIT}{port}.service.d/core.conf", "content": f"[Service]\nCPUAffinity={core}\n"},
        ]
    return found


def _printed(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AnsibleLookupError(f"{' '.join(command[:4])} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _is_numeric(address: str) -> bool:
    return ":" in address or address.replace(".", "").isdigit()
