"""Ansible module (controller): wheel archives for each kind of host.

It selects the wheels for each kind from a directory.

It imports the standard library, Ansible's own, and packaging, which ansible-core needs as well.
"""

from __future__ import annotations

import email
import hashlib
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

DOCUMENTATION = """
module: wheelhouse
short_description: Packs the wheels that chosen extras need into an archive, named by what it holds
options:
  sets: {description: "Extras of shardpulse, by a name of the set.", type: dict, required: true}
  directory: {description: Where the wheels are., type: path, required: true}
  packed: {description: Where the archive is put., type: path, required: true}
author: [shardpulse]
"""
EXAMPLES = """
- name: Pack the wheels
  wheelhouse: {directory: build/wheelhouse, packed: /var/cache/shardpulse, sets: {probes: [probe]}}
  register: controller_wheels
"""
RETURN = """
packs:
  description: >-
    Of each set: its archive, bytes, as its name sixteen hexadecimal digits of what the wheels hold, and as lacking, by
    version of Python and machine, the projects of which it has no wheel for these.
  type: dict
  returned: success
"""


#: Hosts for which requirements are evaluated, whatever the controller is.
_HOSTS = [
    {"python_version": version, "python_full_version": f"{version}.0", "platform_machine": machine,
     "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "implementation_name": "cpython"}
    for version in ("3.11", "3.12", "3.13")
    for machine in ("x86_64", "aarch64")
]  # fmt: skip
_PRODUCT = "shardpulse"


def main() -> None:
    """Run as Ansible's module."""
    path = {"type": "path", "required": True}
    module = AnsibleModule(
        {"directory": path, "packed": path, "sets": {"type": "dict", "required": True}}, supports_check_mode=True
    )
    directory, packed = Path(module.params["directory"]), Path(module.params["packed"])
    wheels = sorted(directory.glob("*.whl"))
    if not any(wheel.name.startswith(f"{_PRODUCT}-") for wheel in wheels):
        module.fail_json(
            msg=f"{directory} holds no wheel of shardpulse: `deploy/build wheelhouse --out {directory}` makes them"
        )
    try:
        requirements = {wheel: requirements_of(wheel) for wheel in wheels}
        packs = {
            name: keep(needed(requirements, extras), packed) | {"lacking": lacking(requirements, extras)}
            for name, extras in sorted(module.params["sets"].items())
        }
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: {error.strerror}")
    except (zipfile.BadZipFile, StopIteration, InvalidRequirement, InvalidWheelFilename) as error:
        module.fail_json(
            msg=f"{directory}: a wheel cannot be read ({error}): make them again, `deploy/build wheelhouse`"
        )
    module.exit_json(changed=False, packs=packs)


def keep(wheels: list[Path], packed: Path) -> dict[str, Any]:
    """The archive of these wheels, created if missing, with its name and size."""
    name = digest(wheels)
    archive = packed / f"{name}.tar"
    if not archive.exists():
        pack(wheels, archive)
    return {"name": name, "archive": str(archive), "bytes": archive.stat().st_size}


def requirements_of(wheel: Path) -> list[str]:
    """Requirements of a wheel, from its metadata."""
    with zipfile.ZipFile(wheel) as file:
        name = next(name for name in file.namelist() if name.count("/") == 1 and name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(file.read(name)).get_all("Requires-Dist") or []


def needed(requirements: Mapping[Path, Sequence[str]], extras: Sequence[str]) -> list[Path]:
    """Wheels needed by the product with these extras on any host, from the requirements of each wheel."""
    names = _names(requirements, extras, _HOSTS)
    return sorted(wheel for wheel in requirements if _name(wheel) in names)


def lacking(requirements: Mapping[Path, Sequence[str]], extras: Sequence[str]) -> dict[str, list[str]]:
    """Projects needed by the product with these extras without a wheel for a host, by its Python and its
    machine, such as ``3.11 x86_64``; only hosts that lack something."""
    found = {}
    for host in _HOSTS:
        there = {_name(wheel) for wheel in requirements if _runs(wheel, host)}
        found[f"{host['python_version']} {host['platform_machine']}"] = sorted(
            _names(requirements, extras, [host]) - there
        )
    return {host: names for host, names in found.items() if names}


def _runs(wheel: Path, host: Mapping[str, str]) -> bool:
    """Whether a wheel's tags match such a host."""
    _, minor = map(int, host["python_version"].split("."))

    def fits(tag: Tag) -> bool:
        if not tag.interpreter.startswith(("py3", "cp3")):
            return False
        since = int(tag.interpreter[3:] or 0)
        return since <= minor if tag.abi in {"abi3", "none"} else tag.abi == f"cp3{minor}"

    machines = ("any", f"_{host['platform_machine']}")
    return any(fits(tag) and tag.platform.endswith(machines) for tag in parse_wheel_filename(wheel.name)[3])


def _names(
    requirements: Mapping[Path, Sequence[str]], extras: Sequence[str], hosts: Sequence[Mapping[str, str]]
) -> set[str]:
    """Projects needed by the product with these extras on any of the hosts, including itself."""
    told: dict[str, list[Requirement]] = {}
    for wheel, lines in requirements.items():
        told.setdefault(_name(wheel), []).extend(map(Requirement, lines))
    found = {_PRODUCT: set(extras)}
    waiting = [_PRODUCT]
    while waiting:
        here = waiting.pop()
        for one in told.get(here, ()):
            name = canonicalize_name(one.name)
            if _applies(one, found[here], hosts) and (name not in found or not one.extras <= found[name]):
                found.setdefault(name, set()).update(one.extras)
                waiting.append(name)
    return set(found)


def _applies(requirement: Requirement, extras: Collection[str], hosts: Sequence[Mapping[str, str]]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**host, "extra": extra}) for host in hosts for extra in (*extras, ""))


def _name(wheel: Path) -> str:
    return str(canonicalize_name(wheel.name.partition("-")[0]))


def digest(wheels: list[Path]) -> str:
    """Digest of this set of wheels, from their names and contents."""
    total = hashlib.sha256()
    for wheel in wheels:
        total.update(f"{wheel.name} {hashlib.sha256(wheel.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def pack(wheels: list[Path], archive: Path) -> None:
    """Write the archive next to its place, and move it there."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=archive.parent)
    with open(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w", dereference=True) as packed:
        for wheel in wheels:
            packed.add(wheel, wheel.name)
    os.replace(temporary, archive)


if __name__ == "__main__":
    main()
