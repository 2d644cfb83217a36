"""Ansible module: virtual environment of a host, from an archive of wheels.

It needs no network.

It imports the standard library and Ansible's own only, since it runs on the host.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: python_environment
short_description: Makes a virtual environment of an archive of wheels, and points current to it
options:
  root: {description: Where environments lie., type: path, required: true}
  name: {description: Of this one., type: str, required: true}
  archive: {description: The wheels., type: path, required: true}
  requirement: {description: What is installed of them., type: str, required: true}
  kept: {description: Environments that stay besides this one., type: int, default: 1}
author: [shardpulse]
"""
EXAMPLES = """
- name: Make the environment
  python_environment: {root: /opt/shardpulse, name: 0123, archive: /tmp/0123.tar, requirement: "shardpulse[probe]"}
"""
RETURN = """
directory: {description: The environment., type: str, returned: success}
"""

_DONE = "complete"  #: a file that exists when everything is in place


class Refused(Exception):
    """Failure of a step, in words."""


def main() -> None:
    """Run as Ansible's module."""
    words = {"type": "str", "required": True}
    path = {"type": "path", "required": True}
    module = AnsibleModule(
        {"root": path, "name": words, "archive": path, "requirement": words, "kept": {"type": "int", "default": 1}},
        supports_check_mode=True,
    )
    root, name = Path(module.params["root"]), module.params["name"]
    directory, current = root / name, root / "current"
    before = os.path.realpath(current)
    changed = not (directory / _DONE).exists() or before != str(directory)
    if changed and not module.check_mode:
        try:
            if not (directory / _DONE).exists():
                make(directory, Path(module.params["archive"]), module.params["requirement"])
            point(current, name)
            remove_others(root, name, os.path.basename(before), module.params["kept"])
        except (Refused, OSError, tarfile.TarError) as error:
            module.fail_json(msg=f"{directory}: {error}")
    module.exit_json(changed=changed, directory=str(directory))


def make(directory: Path, archive: Path, requirement: str) -> None:
    """Create the environment from scratch. Raises Refused, OSError, TarError."""
    if directory.exists():
        shutil.rmtree(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as wheels:
        with tarfile.open(archive) as packed:
            unpack(packed, Path(wheels))
        _run([sys.executable, "-m", "venv", str(directory)])
        pip = [str(directory / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        _run([*pip, "--no-index", "--find-links", wheels, requirement])
    (directory / _DONE).touch()


def unpack(packed: tarfile.TarFile, directory: Path) -> None:
    """Extract the wheels, ignoring directories in their names: Debian 12's Python has no filters for extractall yet."""
    for member in packed:
        file = packed.extractfile(member)
        if file is not None:
            with file, open(directory / os.path.basename(member.name), "wb") as unpacked:
                shutil.copyfileobj(file, unpacked)


def point(link: Path, target: str) -> None:
    """Make the link point to ``target``, atomically."""
    temporary = link.with_name(".current")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)


def remove_others(root: Path, name: str, before: str, kept: int) -> None:
    """Remove all environments except this one and ``kept`` others: the one in use ``before``, which parts may still
    run, then the newest."""
    others = [entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink() and entry.name != name]
    newest = sorted(others, key=lambda entry: (entry.name == before, entry.stat().st_mtime), reverse=True)
    for entry in newest[kept:]:
        shutil.rmtree(entry)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, umask=0o022)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Refused(f"{' '.join(command[:4])} ended with {done.returncode}: {' / '.join(said[-4:])}")


if __name__ == "__main__":
    main()
