"""Shard process: a server with its own configuration, pinned to one core."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from acquisition import lifeline, private_files
from acquisition.errors import CannotCreateError
from acquisition.link.resp import Address
from acquisition.shards.servers import configuration, machine
from acquisition.shards.servers.redis_binary import RedisBinary

LOG = "redis.log"  #: in the directory of a shard
_CONFIGURATION = "redis.conf"
STOP_SECONDS = 5.0  #: time for a shard to end by itself


class Shard(NamedTuple):
    """A started shard. ``pid`` with ``started`` (machine.start_time) never identifies another process."""

    host: str
    port: int
    pid: int
    started: int
    core: int
    directory: str

    @property
    def address(self) -> Address:
        """Its address."""
        return Address(self.host, self.port)

    @property
    def alive(self) -> bool:
        """Whether this very process runs."""
        return machine.start_time(self.pid) == self.started

    @property
    def pinned(self) -> bool:
        """Whether all of its threads are bound to its core and no other."""
        return self.alive and machine.is_pinned(self.pid, self.core)


def directives(address: Address, core: int, directory: str, maxmemory: int, release: tuple[int, ...]) -> dict[str, str]:
    """Configuration of a shard of this machine, for Redis from 6.2 on and Valkey."""
    return {
        "bind": address.host,
        "port": str(address.port),
        "supervised": "no",
        "logfile": configuration.quoted(str(Path(directory, LOG))),
        "pidfile": configuration.quoted(str(Path(directory, "redis.pid"))),
        "cluster-announce-ip": address.host,
        **configuration.shared(core, directory, maxmemory, release),
    }


def configure(
    redis: RedisBinary, address: Address, core: int, directory: Path, maxmemory: int, extra: Mapping[str, str]
) -> None:
    """Make the directory and configuration of a shard of this machine; ``extra`` adds to or replaces directives.

    Raises CannotCreateError.
    """
    lines = directives(address, core, str(directory), maxmemory, redis.release) | dict(extra)
    place(address, directory, configuration.text(lines))


def place(address: Address, directory: Path, text: str) -> None:
    """Make the directory of a shard, with ``text`` as its configuration. Raises CannotCreateError."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_files.write(directory / _CONFIGURATION, text, replace=True)
    except OSError as error:
        raise CannotCreateError(
            f"cannot write the files of shard {address} in {directory}: {error.strerror}"
        ) from error


def launch(
    redis: RedisBinary, address: Address, core: int, directory: Path, tied: bool
) -> tuple[Shard, subprocess.Popen[bytes]]:
    """Start the shard configured in ``directory``, without waiting for it.

    ``tied``: it dies with this process, otherwise it outlives it. Raises CannotCreateError.
    """
    command = [redis.path, str(directory / _CONFIGURATION)]
    try:
        with (directory / LOG).open("ab") as log:
            child = subprocess.Popen(
                lifeline.tied(command) if tied else command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,  # for errors in its configuration
                cwd=directory,
                start_new_session=True,  # Ctrl-C in the terminal is for us to handle, in order
            )
    except OSError as error:
        raise CannotCreateError(f"cannot start shard {address} in {directory}: {error}") from error
    return Shard(address.host, address.port, child.pid, machine.start_time(child.pid) or 0, core, str(directory)), child


def last_words(directory: Path) -> str:
    """Last meaningful line of a shard's log: why it ended."""
    try:
        lines = (directory / LOG).read_text(errors="replace").splitlines()
    except OSError:
        return "no log was written"
    spoken = [line.partition(" # ")[2] for line in lines if " # " in line]
    return spoken[-1] if spoken else (" ".join(lines[-2:]) if lines else "the log is empty")


def stop(
    shards: Iterable[Shard], children: Iterable[subprocess.Popen[bytes]] = (), seconds: float = STOP_SECONDS
) -> None:
    """End shards and remove their directories: SIGTERM, and SIGKILL to those still alive after ``seconds``.
    Shards that are gone already are no error. ``children`` of this process are reaped."""
    shards = list(shards)
    _signal(shards, signal.SIGTERM)
    if not _gone(shards, seconds):
        _signal(shards, signal.SIGKILL)
        _gone(shards, STOP_SECONDS)
    for child in children:
        child.wait(STOP_SECONDS)
    for shard in shards:
        shutil.rmtree(shard.directory, ignore_errors=True)


def _signal(shards: list[Shard], number: signal.Signals) -> None:
    for shard in shards:
        if shard.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(shard.pid, number)


def _gone(shards: list[Shard], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(shard.alive for shard in shards):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
