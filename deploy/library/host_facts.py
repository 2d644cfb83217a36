"""Ansible module: facts of a host for the roles, in one call.

It changes nothing.

It imports the standard library and Ansible's own only, since it runs on the host.
"""

from __future__ import annotations

import glob
import grp
import os
import platform
import pwd
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: host_facts
short_description: Cores, ports, packages, units and files of a host
options:
  packages: {description: Packages to look for among those installed., type: list, elements: str, default: []}
  try_packages:
    description: Read the package lists again where packages are missing, and try in a simulation to install them.
    type: bool
    default: false
  sent: {description: The controller's clock when it asked., type: float, default: 0}
author: [shardpulse]
"""
EXAMPLES = """
- name: Look at the host
  host_facts:
    packages: [redis-server]
  register: common_facts
"""
RETURN = """
host: {description: What was found., type: dict, returned: always}
"""

_PROPERTIES = (
    "Id",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "MainPID",
    "ExecMainStartTimestamp",
    "NRestarts",
    "StatusText",
    "Result",
)
_UNIT_FILES = (
    "/etc/systemd/system/shardpulse*.service",
    "/etc/systemd/system/multi-user.target.wants/shardpulse*.service",
)
_PATTERNS = ("shardpulse*", "valkey-server.service", "redis-server.service", "prometheus.service", "irqbalance.service")
#: Files created by roles and units outside of /etc/shardpulse.
_PLACES = (
    "/etc/shardpulse", "/etc/systemd/system/shardpulse*", "/etc/sysctl.d/60-shardpulse.conf",
    "/etc/systemd/system/irqbalance.service.d/shardpulse.conf",
    "/etc/tmpfiles.d/shardpulse.conf",
    "/etc/systemd/journald.conf.d/shardpulse.conf", "/etc/prometheus/shardpulse*", "/opt/shardpulse",
    "/usr/local/bin/shardpulse", "/var/lib/shardpulse*", "/run/shardpulse*", "/var/tmp/shardpulse*",
)  # fmt: skip
#: CPUs available to services; all of them unless a cgroup reserves some.
_CPUS = (
    "/sys/fs/cgroup/system.slice/cpuset.cpus.effective",
    "/sys/fs/cgroup/cpuset.cpus.effective",
    "/sys/devices/system/cpu/online",
)
_WRITTEN = ("/etc", "/opt", "/var/lib")  #: directories whose file systems need space
_APT_LISTS = [
    "apt-get", "-qq", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o",
    "APT::Update::Error-Mode=any", "update",
]  # fmt: skip
_APT_TRIES = ["apt-get", "-qq", "--simulate", "--no-install-recommends", "install"]
_SAID = 400  #: maximum of characters of apt's output
_LISTENS = "0A"  #: state of a socket in /proc/net/tcp
_ETC = "/etc/shardpulse"
_ENVIRONMENTS = "/opt/shardpulse"


def main() -> None:
    """Run as Ansible's module."""
    options = {
        "packages": {"type": "list", "elements": "str", "default": []}, "sent": {"type": "float", "default": 0},
        "try_packages": {"type": "bool", "default": False},
    }  # fmt: skip
    module = AnsibleModule(options, supports_check_mode=True)
    found = look(module.params["packages"]) | {"sent": module.params["sent"]}
    missing = [name for name in module.params["packages"] if name not in found["packages"]]
    found["unpackaged"] = refusal(missing) if module.params["try_packages"] and missing else ""
    module.exit_json(changed=False, host=found)


def look(packages: list[str]) -> dict[str, Any]:
    """All facts."""
    return {
        "time": time.time(),
        "uid": os.geteuid(),
        "python": list(sys.version_info[:2]),
        "machine": platform.machine(),
        "cores": cores(_read("/sys/devices/system/cpu/online") or "0"),
        "usable": cores(next(filter(None, map(_read, _CPUS)), "0")),
        "memory": _memory(_read("/proc/meminfo")),
        "free": {path: _free(path) for path in _WRITTEN},
        "addresses": _addresses(),
        "synchronised": "yes" in _output(["timedatectl", "show", "-p", "NTPSynchronized"]),
        "ports": _ports(),
        "users": sorted(user.pw_name for user in pwd.getpwall()),
        "packages": {name: state for name in packages if (state := _package(name))},
        "environment": os.path.basename(os.path.realpath(f"{_ENVIRONMENTS}/current")),
        "units": _units(),
        "files": _files(),
        "places": sorted(path for pattern in _PLACES for path in glob.glob(pattern)),
    }


def cores(text: str) -> list[int]:
    """Numbers in a list of CPUs such as ``0-3,8`` (cpuset(7))."""
    found: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            found.extend(range(int(first), int(last or first) + 1))
    return found


def listening(text: str) -> dict[str, int]:
    """Inode of the socket -> port of listening sockets, from the text of /proc/net/tcp or tcp6."""
    found = {}
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == _LISTENS:
            found[words[9]] = int(words[1].rpartition(":")[2], 16)
    return found


def environment_in(maps: str) -> str:
    """Environment below /opt/shardpulse with libraries in use by a process, from its /proc/PID/maps; "" for none."""
    found = re.search(rf"{_ENVIRONMENTS}/([^/\s]+)/", maps)
    return found[1] if found else ""


def refusal(packages: list[str]) -> str:
    """Reason apt would not install packages, in its words; "" if it would, or if another apt prevents the check.
    Nothing is installed; the lists of packages are read again."""
    environment = os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    for words in (_APT_LISTS, [*_APT_TRIES, *packages]):
        try:
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith(("E: ", "W: "))]
            return "" if "Could not get lock" in done.stderr else " ".join(said)[3:_SAID] or f"{words[0]} failed"
    return ""


def _ports() -> dict[str, str]:
    """Listeners by port: the unit of the process, or its name."""
    sockets = listening(_read("/proc/net/tcp")) | listening(_read("/proc/net/tcp6"))
    owners = dict.fromkeys(sockets.values(), "?")
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        port = sockets.get(target[8:-1]) if target.startswith("socket:[") else None
        if port is not None:
            owners[port] = _owner(link.split("/")[2])
    return {str(port): owner for port, owner in sorted(owners.items())}


def _owner(pid: str) -> str:
    found = re.search(r"/([^/\n]+\.service)(?:/|$)", _read(f"/proc/{pid}/cgroup"), re.MULTILINE)
    if found:
        return found[1].replace("\\x2d", "-")
    name = _read(f"/proc/{pid}/comm").strip()  # a process may have any name, and a terminal shows it
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)


def _units() -> dict[str, dict[str, Any]]:
    shown = ["systemctl", "show", "--no-pager", "--timestamp=unix", "-p", ",".join(_PROPERTIES)]
    # a pattern matches only loaded units, which excludes one stopped in order
    placed = {os.path.basename(path) for pattern in _UNIT_FILES for path in glob.glob(pattern)}
    text = _output([*shown, *_PATTERNS, *sorted(name for name in placed if "@." not in name)])
    found = {}
    for block in text.split("\n\n"):
        unit: dict[str, Any] = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if unit.get("Id"):
            pid = unit.get("MainPID", "0")
            found[unit["Id"]] = unit | {
                "cpus": _cpus(pid),
                "environment": environment_in(_read(f"/proc/{pid}/maps")),
                "stale": _is_stale(unit["Id"], pid, unit.get("ExecMainStartTimestamp", "")),
            }
    return found


def _is_stale(unit: str, pid: str, began: str) -> bool:
    """Whether a shard's process is of a replaced program, or older than its configuration or its unit;
    ``began`` is @ and the second of its start."""
    port = re.fullmatch(r"shardpulse-shard@(\d+)\.service", unit)
    if port is None or pid == "0":
        return False
    try:
        if os.readlink(f"/proc/{pid}/exe").endswith(" (deleted)"):
            return True
    except OSError:
        return False
    changed = [os.path.getmtime(path) for path in _read_at_start(port[1]) if os.path.exists(path)]
    # both in whole seconds: files are written before the start
    return any(int(one) > int(began.lstrip("@") or 0) for one in changed)


def _read_at_start(port: str) -> list[str]:
    units = "/etc/systemd/system/shardpulse-shard@"
    return [f"{_ETC}/shard-{port}/redis.conf", f"{units}.service", *glob.glob(f"{units}{port}.service.d/*.conf")]


def _cpus(pid: str) -> list[str]:
    """CPU sets on which the threads of a process may run."""
    lists = set()
    for path in glob.glob(f"/proc/{pid}/task/*/status") if pid != "0" else []:
        found = re.search(r"^Cpus_allowed_list:\s*(\S+)", _read(path), re.MULTILINE)
        lists.add(found[1] if found else "?")
    return sorted(lists)


def _files() -> dict[str, dict[str, str]]:
    found = {}
    for path in [_ETC, *glob.glob(f"{_ETC}/**/*", recursive=True)]:
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        found[path] = {
            "mode": f"{stat.S_IMODE(status.st_mode):04o}",
            "owner": _name(pwd.getpwuid, status.st_uid),
            "group": _name(grp.getgrgid, status.st_gid),
        }
    return found


def _name(find: Any, number: int) -> str:
    try:
        return str(find(number)[0])
    except KeyError:
        return str(number)


def _package(name: str) -> str:
    """Whether it is installed and may change: installed, hold, or nothing."""
    words = _output(["dpkg-query", "-W", "-f", "${Status}", name]).split()
    return {"hold": "hold"}.get(words[0], "installed") if words[1:] == ["ok", "installed"] else ""


def _addresses() -> list[str]:
    """Addresses of all interfaces, if ip(8) is available."""
    return re.findall(r"\binet6? ([0-9a-fA-F.:]+)", _output(["ip", "-o", "address"]))


def _memory(text: str) -> int:
    found = re.search(r"^MemTotal:\s*(\d+)", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _free(path: str) -> int:
    """Free bytes on the file system of a path, -1 if unknown."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return -1


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


if __name__ == "__main__":
    main()
