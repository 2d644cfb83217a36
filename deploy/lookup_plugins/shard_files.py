"""Ansible lookup: files of a host's shards, rendered on the controller.

They have the form of ``host_files``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = """
name: shard_files
short_description: Files of the shards of a host
description: Runs C(shardpulse shards render machine) on the controller, once, and reads the host's certificate there.
author: [shardpulse]
options:
  _terms: {description: "Shards of the host: port, core.", required: true}
  command: {description: The command shardpulse., type: str, required: true}
  secrets: {description: "Directory of authority, certificates and passwords.", type: str, required: true}
  address: {description: By what clients and other shards find them., type: str, required: true}
  maxmemory: {description: Bytes for data of each., type: int, required: true}
  connections: {description: Clients of each at most., type: int, required: true}
  server: {description: Package and program of Debian., type: str, required: true}
"""
EXAMPLES = """
- name: Write the shards' files
  host_files:
    files: "{{ query('shard_files', *instances, command='shardpulse', secrets='secrets', address='10.0.0.1',
               maxmemory=1073741824, connections=12000, server='redis-server') }}"
"""
RETURN = """
_raw: {description: Files., type: list, elements: dict}
"""

_UNIT = "/etc/systemd/system/shardpulse-shard@"
_ETC = "/etc/shardpulse/shard"  #: followed by a dash and the port


class LookupModule(LookupBase):  # type: ignore[misc]
    """Lookup loaded by Ansible."""

    def run(self, terms: list[Any], variables: Any = None, **options: Any) -> list[dict[str, str]]:
        """The files."""
        self.set_options(var_options=variables, direct=options)
        names = ("command", "secrets", "address", "maxmemory", "connections", "server")
        chosen = {name: self.get_option(name) for name in names}
        try:
            return files(terms, **chosen)
        except OSError as error:
            raise AnsibleLookupError(f"{error.filename}: {error.strerror}") from error


def files(
    instances: Sequence[dict[str, Any]],
    command: str,
    secrets: str,
    address: str,
    maxmemory: int,
    connections: int,
    server: str,
) -> list[dict[str, str]]:
    """The template unit, and for each instance its directory, configuration, users, certificate, key and cores."""
    place, group = Path(secrets), server.removesuffix("-server")
    rendered = _rendered(
        [command, "shards", "render", "machine", "--announce", address, "--passwords", str(place / "passwords"),
         "--maxmemory", str(maxmemory), "--connections", str(connections), "--server", server,
         "--etc", _ETC, "--data", "/var/lib/shardpulse-shard",
         *(f"--shard={one['port']}:{one['core']}" for one in instances),
         *(["--bind", address] if _is_numeric(address) else [])]
    )  # fmt: skip
    found = [{"path": f"{_UNIT}.service", "content": rendered["unit"]}]
    for one in instances:
        port, core = str(one["port"]), str(one["core"])
        etc = f"{_ETC}-{port}"
        owned = {"group": group, "mode": "0640"}
        issued = place / "shards" / "issued"
        found += [
            {"path": etc, "kind": "directory", "group": group, "mode": "0750"},
            {"path": f"{etc}/redis.conf", "secret": rendered["configurations"][port]} | owned,
            {"path": f"{etc}/users.acl", "secret": rendered["users"]} | owned,
            {"path": f"{etc}/ca.pem", "content": (place / "shards" / "ca.pem").read_text()} | owned,
            {"path": f"{etc}/shard.pem", "content": (issued / f"{address}.pem").read_text()} | owned,
            {"path": f"{etc}/shard.key", "secret": (issued / f"{address}.key").read_text()} | owned,
            {
                "path": f"{_UNIT}{port}.service.d/core.conf",
                "content": f"[Service]\nCPUAffinity={core}\nNUMAPolicy=local\n",
            },
        ]
    return found


def _rendered(command: list[str]) -> dict[str, Any]:
    """Everything needed by the host's shards, from one run of the command."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AnsibleLookupError(f"{' '.join(command[:4])} ended with {done.returncode}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _is_numeric(address: str) -> bool:
    return ":" in address or address.replace(".", "").isdigit()
