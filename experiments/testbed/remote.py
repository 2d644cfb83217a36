"""Remote machines of an Ansible inventory as hosts of a topology, over ssh.

This checkout is copied to each of them and runs in a directory that is removed at the end; the Python there needs the
packages of the parts (hiredis, msgspec, numpy), as on a deployed filter.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.errors import ConfigError, ShardpulseError, UnavailableError
from experiments.processes import temporary
from experiments.testbed.commands import path_of
from experiments.testbed.machines import Machine
from experiments.testbed.topology import Topology

PYTHON = "/opt/shardpulse/current/bin/python"  #: its path after deployment
_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("acquisition", "probes", "filters", "experiments")
_LEFT_OUT = ("__pycache__", "results", "page")
_SECONDS = 120.0


class Target(NamedTuple):
    """Address of a machine, and its ssh command."""

    address: str
    ssh: list[str]


def missing() -> str:
    """Requirements lacking here for machines of an inventory; "" without any."""
    absent = "" if _ansible() else "there is no ansible-inventory: pip install ansible-core"
    return absent or ("" if path_of("ssh") else "there is no ssh: apt install openssh-client")


@contextlib.contextmanager
def machines(topology: Topology, inventory: Path, interpreter: str) -> Iterator[list[Machine]]:
    """Agents on the machines named like the hosts. Raises ShardpulseError."""
    known = targets(inventory)
    if absent := [host.name for host in topology.hosts if host.name not in known]:
        raise ConfigError(f"{inventory}: no host {', '.join(absent)}; the hosts of a topology are found by their names")
    carried = _packed()
    with contextlib.ExitStack() as stack:
        made = []
        for host in topology.hosts:
            target = known[host.name]
            place = _carry(host.name, target, carried)
            words = [interpreter, "-m", "experiments.processes.agent", place, "own"]
            command = [*target.ssh, f"cd {shlex.quote(place)} && exec {shlex.join(words)}"]
            machine = Machine(host, target.address, place, command)
            stack.callback(machine.end)
            made.append(machine)
        for machine in made:
            machine.receive()
        yield made


def targets(inventory: Path) -> dict[str, Target]:
    """All machines of an inventory by name. Raises UnavailableError, ConfigError."""
    command = [_ansible() or "", "-i", str(inventory), "--list"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"ansible-inventory: {error}") from error
    if done.returncode:
        raise ConfigError(f"{inventory}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    variables = found["_meta"]["hostvars"]
    names = {name for group in found.values() for name in group.get("hosts", ())} | set(variables)
    return {name: target(name, variables.get(name, {})) for name in names}


def target(name: str, variables: Mapping[str, Any]) -> Target:
    """How to reach a machine, by the variables of Ansible's own connection ``ssh``."""
    address = str(variables.get("ansible_host", name))
    command = [path_of("ssh") or "ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=10"]
    for option, names in (
        ("-p", ("ansible_port", "ansible_ssh_port")),
        ("-l", ("ansible_user", "ansible_ssh_user")),
        ("-i", ("ansible_ssh_private_key_file", "ansible_private_key_file")),
    ):
        given = next((str(variables[each]) for each in names if each in variables), "")
        command += [option, given] if given else []
    for each in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        command += shlex.split(str(variables.get(each, "")))
    return Target(address, [*command, address])


def _carry(name: str, target: Target, data: bytes) -> str:
    """Copy this checkout into a new directory of a machine; its path there. Raises ShardpulseError."""
    script = f"umask 077 && d=$(mktemp -d /tmp/{temporary.PREFIX}XXXXXX) && tar -xzf - -C $d && echo $d"
    try:
        done = subprocess.run([*target.ssh, script], input=data, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{name}: ssh: {error}") from error
    if done.returncode:
        raise ShardpulseError(f"{name}: the checkout could not be carried there: {done.stderr.decode().strip()}")
    return done.stdout.decode().strip()


def _packed() -> bytes:
    """The packages of this checkout."""
    with io.BytesIO() as data:
        with tarfile.open(fileobj=data, mode="w:gz") as tar:
            for package in _PACKAGES:
                tar.add(_ROOT / package, package, filter=_wanted)
        return data.getvalue()


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(member.name).name in _LEFT_OUT else member


def _ansible() -> str | None:
    here = os.path.dirname(sys.executable)
    return shutil.which("ansible-inventory", path=f"{here}{os.pathsep}{os.environ.get('PATH', '')}")
