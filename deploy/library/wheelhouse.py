"""An Ansible module for the controller: one archive of a directory of wheels, named by what it holds.

It imports the standard library and Ansible's own only.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: wheelhouse
short_description: Packs wheels into one archive, named by what it holds
options:
  directory: {description: Where the wheels are., type: path, required: true}
  packed: {description: Where the archive is put., type: path, required: true}
author: [shardpulse]
"""
EXAMPLES = """
- name: Pack the wheels
  wheelhouse: {directory: build/wheelhouse, packed: /var/cache/shardpulse}
  register: controller_wheels
"""
RETURN = """
name: {description: Sixteen hexadecimal digits of what the wheels hold., type: str, returned: success}
archive: {description: The archive., type: str, returned: success}
"""


def main() -> None:
    """Run as Ansible's module."""
    module = AnsibleModule(
        {"directory": {"type": "path", "required": True}, "packed": {"type": "path", "required": True}},
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    wheels = sorted(directory.glob("*.whl"))
    if not any(wheel.name.startswith("shardpulse-") for wheel in wheels):
        module.fail_json(
            msg=f"{directory} holds no wheel of shardpulse: `deploy/build wheelhouse --out {directory}` makes them"
        )
    try:
        name = digest(wheels)
        archive = Path(module.params["packed"], f"{name}.tar")
        changed = not archive.exists()
        if changed:
            pack(wheels, archive)
    except OSError as error:
        module.fail_json(msg=f"{error.filename}: {error.strerror}")
    module.exit_json(changed=False, name=name, archive=str(archive))


def digest(wheels: list[Path]) -> str:
    """What names this set of wheels: their names and what they hold."""
    total = hashlib.sha256()
    for wheel in wheels:
        total.update(f"{wheel.name} {hashlib.sha256(wheel.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def pack(wheels: list[Path], archive: Path) -> None:
    """Write the archive beside its place, and move it there."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=archive.parent)
    with open(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w") as packed:
        for wheel in wheels:
            packed.add(wheel, wheel.name)
    os.replace(temporary, archive)


if __name__ == "__main__":
    main()
