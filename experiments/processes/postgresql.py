"""Private PostgreSQL from Debian's package, to measure the archive.

It has the package's settings, so that a commit is durable; it listens on a Unix socket in its directory, and
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
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg2

from acquisition import lifeline
from acquisition.errors import UnavailableError
from experiments.processes.needs import Need

WORD = "postgresql"  #: in place of a URL: a private server
_SECONDS = 60.0


def installed(url: str) -> Need:
    """PostgreSQL, if a URL asks for a private server."""
    return lambda: "" if url != WORD or _binaries() else "there is no PostgreSQL: apt install postgresql"


@contextmanager
def database(url: str) -> Iterator[str]:
    """The URL of a database until the end of the block: of a private server for ``postgresql``, of an SQLite file in
    its own directory for an empty one, else ``url`` itself. Raises UnavailableError."""
    if url not in ("", WORD):
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="shardpulse-db-", dir="/tmp" if url else None) as name:
        if not url:
            yield f"sqlite:///{name}/archive.db"
            return
        server = Server(Path(name))
        try:
            server.start()
            yield server.url
        finally:
            server.stop()


class Server:
    """A server in ``directory``, which becomes its own; nothing is started yet. Raises UnavailableError."""

    def __init__(self, directory: Path) -> None:
        binaries = _binaries()
        if binaries is None:
            raise UnavailableError("there is no PostgreSQL: apt install postgresql")
        self.url = f"postgresql://postgres@/postgres?host={directory}"
        self._directory, self._become = directory, become(directory)
        self._process: subprocess.Popen[bytes] | None = None
        data = directory / "data"
        initdb = [*self._become, str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust"]
        made = [*initdb, "-E", "UTF8", "--locale=C.UTF-8"]
        done = subprocess.run(made, capture_output=True, text=True, cwd=directory, check=False)
        if done.returncode:
            raise UnavailableError(f"initdb: {done.stdout} {done.stderr}")
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={directory}"]
        self._command = [*self._become, str(binaries / "postgres"), "-D", str(data), *options]

    def start(self) -> None:
        """Start it, from a thread that outlives it, and wait until it answers. Raises UnavailableError."""
        log = self._directory / "log"
        with log.open("ab") as file:
            command = lifeline.tied(self._command, signal.SIGQUIT)
            self._process = subprocess.Popen(command, stdout=file, stderr=file, cwd=self._directory)
        deadline = time.monotonic() + _SECONDS
        while not answers(self.url):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise UnavailableError(f"postgres: {log.read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9 of all its processes."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(_SECONDS)

    def freeze(self) -> None:
        """SIGSTOP of all its processes."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT of all its processes."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes, the main one first, so that it starts no others."""
        if self._process is None or self._process.poll() is not None:
            return
        pid = self._process.pid
        os.kill(pid, number)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), number)

    def stop(self) -> None:
        """End it at once: its data are not needed again."""
        if self._process is not None:
            self.thaw()
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(_SECONDS)


def _binaries() -> Path | None:
    kept = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    found = shutil.which("postgres") or next(map(str, reversed(kept)), None)
    return Path(found).resolve().parent if found else None


def become(directory: Path) -> list[str]:
    """Switch from root to another user, as PostgreSQL refuses root. The parent-death signal is set again: a change of
    user clears it."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(directory, user.pw_uid, user.pw_gid)
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    return [setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig=QUIT"]


def answers(url: str) -> bool:
    """Whether a server accepts connections there."""
    try:
        psycopg2.connect(url, connect_timeout=2).close()
    except psycopg2.OperationalError:
        return False
    return True
