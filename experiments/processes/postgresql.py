"""A PostgreSQL of one's own, of Debian's package: for programs that measure the archive.

Its settings are those of the package, so that a commit is durable; it listens on a Unix socket in its directory, and
dies with the program.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2

from acquisition import lifeline
from acquisition.errors import UnavailableError
from experiments.processes.needs import Need

WORD = "postgresql"  #: in the place of a URL: a server of one's own
_SECONDS = 60.0


def installed(url: str) -> Need:
    """PostgreSQL, where a URL asks for one of one's own."""
    return lambda: "" if url != WORD or _binaries() else "there is no PostgreSQL: apt install postgresql"


@contextmanager
def database(url: str) -> Iterator[str]:
    """The URL of a database until the end of the block: of a server of one's own for ``postgresql``, an SQLite file in
    a directory of its own for an empty one, else ``url`` itself. Raises UnavailableError."""
    if url not in ("", WORD):
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="shardpulse-db-", dir="/tmp" if url else None) as name:
        if not url:
            yield f"sqlite:///{name}/archive.db"
            return
        with _server(Path(name)) as own:
            yield own


@contextmanager
def _server(directory: Path) -> Iterator[str]:
    binaries, become, data = _binaries(), _become(directory), directory / "data"
    assert binaries is not None
    made = [*become, str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust", "-E", "UTF8"]
    done = subprocess.run([*made, "--locale=C.UTF-8"], capture_output=True, text=True, cwd=directory, check=False)
    if done.returncode:
        raise UnavailableError(f"initdb: {done.stdout} {done.stderr}")
    options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={directory}"]
    command = [*become, str(binaries / "postgres"), "-D", str(data), *options]
    url = f"postgresql://postgres@/postgres?host={directory}"
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(lifeline.tied(command, signal.SIGQUIT), stdout=log, stderr=log, cwd=directory)
    try:
        deadline = time.monotonic() + _SECONDS
        while not _answers(url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise UnavailableError(f"postgres: {(directory / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        yield url
    finally:
        process.send_signal(signal.SIGQUIT)  # nobody will read it again
        process.wait(_SECONDS)


def _binaries() -> Path | None:
    kept = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    found = shutil.which("postgres") or next(map(str, reversed(kept)), None)
    return Path(found).resolve().parent if found else None


def _become(directory: Path) -> list[str]:
    """PostgreSQL refuses root, who becomes another user for it. The death of the parent is told again: a change of
    user forgets it."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(directory, user.pw_uid, user.pw_gid)
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    return [setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig=QUIT"]


def _answers(url: str) -> bool:
    try:
        psycopg2.connect(url, connect_timeout=2).close()
    except psycopg2.OperationalError:
        return False
    return True
