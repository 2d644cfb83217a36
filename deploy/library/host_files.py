"""Ansible module: all files, directories and links of a part on a host.

It needs one call.

It imports the standard library and Ansible's own only, since it runs on the host.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: host_files
short_description: Writes files, directories and links of a host in one call
options:
  files:
    description: What there shall be, in this order.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Where., type: path, required: true}
      kind:
        description: What it is; C(absent) removes it.
        type: str
        choices: [file, directory, link, absent]
        default: file
      content: {description: Of a file., type: str}
      secret: {description: "Of a file, in place of content: shown nowhere.", type: str}
      target: {description: Of a link., type: str}
      owner: {description: Name of a user., type: str, default: root}
      group: {description: Name of a group., type: str, default: root}
      mode: {description: Octal., type: str}
author: [shardpulse]
"""
EXAMPLES = """
- name: Write the probe's files
  host_files:
    files:
      - {path: /etc/shardpulse, kind: directory, mode: "0755"}
      - {path: /etc/shardpulse/probe.toml, content: "[host]", mode: "0644"}
"""
RETURN = """
paths: {description: What has changed., type: list, elements: str, returned: always}
"""

_MODES = {"file": 0o644, "directory": 0o755}
_SHOWN_BYTES = 100_000  #: longer files are not shown as a difference


class Module(AnsibleModule):  # type: ignore[misc]
    """Writes the names of requested files to the host's journal, never their content: Ansible hides a secret there
    only in its literal form, and one that ends with a newline is escaped in the list of files."""

    def _log_invocation(self) -> None:
        self.log(f"files: {' '.join(str(file['path']) for file in self.params['files'])}")


class Refused(Exception):
    """Refusal of a request, in words."""


def main() -> None:
    """Run as Ansible's module."""
    suboptions = {
        "path": {"type": "path", "required": True},
        "kind": {"choices": ["file", "directory", "link", "absent"], "default": "file"},
        "content": {"type": "str"},
        "secret": {"type": "str", "no_log": True},
        "target": {"type": "str"},
        "owner": {"type": "str", "default": "root"},
        "group": {"type": "str", "default": "root"},
        "mode": {"type": "str"},
    }
    module = Module(
        {"files": {"type": "list", "elements": "dict", "required": True, "options": suboptions}},
        supports_check_mode=True,
    )
    changed: list[str] = []
    differences = []
    for wanted in module.params["files"]:
        try:
            difference = settle(wanted, module.check_mode)
        except (Refused, OSError, ValueError) as error:
            module.fail_json(msg=f"{wanted['path']}: {error}", paths=changed)
        if difference is not None:
            changed.append(wanted["path"])
            differences.append(difference)
    module.exit_json(changed=bool(changed), paths=changed, diff=differences)


def settle(wanted: dict[str, Any], check: bool = False) -> dict[str, str] | None:
    """Make one path as ``wanted``, unless ``check``; returns the difference, or None if there was none.

    A file is written next to its place and moved there, with owner and mode, so no one sees half of it or reads a
    secret before it is protected. Raises Refused, OSError.
    """
    path = wanted["path"]
    before = look(path)
    after = _after(wanted)
    if after == before:
        return None
    if not check:
        _make(wanted, before, after)
    return {
        "before_header": path,
        "after_header": path,
        "before": _shown(before, wanted),
        "after": _shown(after, wanted),
    }


def look(path: str) -> dict[str, Any]:
    """Properties of the file at ``path``: kind, and owner, group, mode, content or target; links are not followed."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return {"kind": "absent"}
    if stat.S_ISLNK(found.st_mode):
        return {"kind": "link", "target": os.readlink(path)}
    owned = {"uid": found.st_uid, "gid": found.st_gid, "mode": stat.S_IMODE(found.st_mode)}
    if stat.S_ISDIR(found.st_mode):
        return {"kind": "directory", **owned}
    if stat.S_ISREG(found.st_mode):
        return {"kind": "file", **owned, "content": Path(path).read_bytes()}
    return {"kind": "other", **owned}


def _after(wanted: dict[str, Any]) -> dict[str, Any]:
    kind = wanted["kind"]
    if kind == "absent":
        return {"kind": kind}
    if kind == "link":
        if not wanted.get("target"):
            raise Refused("a link needs a target")
        return {"kind": kind, "target": wanted["target"]}
    mode = int(wanted["mode"], 8) if wanted.get("mode") else _MODES[kind]
    owned = {"uid": _uid(wanted["owner"]), "gid": _gid(wanted["group"]), "mode": mode}
    if kind == "directory":
        return {"kind": kind, **owned}
    content = wanted["content"] if wanted.get("secret") is None else wanted["secret"]
    if content is None:
        raise Refused("a file needs content or secret")
    return {"kind": kind, **owned, "content": content.encode()}


def _make(wanted: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    path, kind = wanted["path"], after["kind"]
    if kind == "absent":
        _remove(path, before["kind"])
        return
    if before["kind"] not in {"absent", kind} and "directory" in {before["kind"], kind}:
        raise Refused(f"is a {before['kind']}, and shall be a {kind}: move it away")
    if kind == "directory":
        os.makedirs(path, exist_ok=True)
        os.chown(path, after["uid"], after["gid"])
        os.chmod(path, after["mode"])
        return
    place = os.path.dirname(path)
    os.makedirs(place, exist_ok=True)
    if kind == "link":
        temporary = tempfile.mktemp(prefix=".shardpulse-", dir=place)
        os.symlink(after["target"], temporary)
    else:
        temporary = _written(place, after)
    os.replace(temporary, path)


def _written(place: str, after: dict[str, Any]) -> str:
    descriptor, temporary = tempfile.mkstemp(prefix=".shardpulse-", dir=place)
    try:
        with open(descriptor, "wb") as file:
            os.fchown(file.fileno(), after["uid"], after["gid"])
            os.fchmod(file.fileno(), after["mode"])
            file.write(after["content"])
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _remove(path: str, kind: str) -> None:
    if kind != "directory":
        os.unlink(path)
        return
    for inside, directories, files in os.walk(path, topdown=False):
        for name in files:
            os.unlink(os.path.join(inside, name))
        for name in directories:
            entry = os.path.join(inside, name)
            os.unlink(entry) if os.path.islink(entry) else os.rmdir(entry)
    os.rmdir(path)


def _uid(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError as error:
        raise Refused(f"there is no user {name} here") from error


def _gid(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise Refused(f"there is no group {name} here") from error


def _shown(state: dict[str, Any], wanted: dict[str, Any]) -> str:
    """For --diff: secrets and files that are not text, by size only."""
    lines = [state["kind"]]
    if "mode" in state:
        lines.append(f"owner {state['uid']}:{state['gid']} mode {state['mode']:04o}")
    if "target" in state:
        lines.append(f"to {state['target']}")
    content = state.get("content")
    if content is not None:
        secret = wanted.get("secret") is not None or len(content) > _SHOWN_BYTES
        lines.append(f"({len(content)} bytes, not shown)" if secret else content.decode(errors="replace"))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
