"""Agent settings, resolved from the configuration: plain values as JSON.

The configuration is read and validated with tools that would cost every probe several
megabytes, so another process does that (``probes.probe_command``) and passes on the
result: at the start through an inherited descriptor, at SIGHUP through a pipe.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from acquisition.errors import DataError


class ModuleSettings(NamedTuple):
    """One monitor module; ``metrics`` are the chosen ones, never empty; ``options`` are for its source alone."""

    resource_set: str
    source: str
    interval: float
    metrics: tuple[str, ...]
    options: Mapping[str, Any] = {}


class AgentSettings(NamedTuple):
    """Everything resolved. ``compiler`` is the command that makes this document again at SIGHUP.

    ``owners``, ``authority`` and ``password_file`` as those of acquisition.link.trust.credentials.
    ``seeds`` are (host, port); without any the shards are those with their state in ``state_directory``.
    ``selection`` has the fields of probes.processes.discovery.Selection;
    ``checks``: name -> table.
    """

    host: str
    seeds: tuple[tuple[str, int], ...]
    state_directory: str
    username: str
    password: str
    owners: tuple[int, ...]
    authority: str
    password_file: str
    timeout: float
    ring_path: str
    ring_bytes: int
    ring_seconds: float
    position_interval: float
    shed_after: float
    discovery_interval: float
    modules: tuple[ModuleSettings, ...]
    selection: dict[str, Any]
    checks: dict[str, dict[str, Any]]
    compiler: tuple[str, ...]
    ticks: int = 0  #: stop after this number of ticks of the shortest interval; 0: never
    seconds: float = 0.0  #: stop after this number of seconds; 0: never
    dry_run: bool = False
    wait: float = 0.0  #: give up if no shard has answered for this long since the start; 0: never
    signing: tuple[str, str] | None = None  #: number and secret of this host's key, in hex
    scope: str = ""  #: the cluster that numbers this host's VMs
    log: dict[str, int] | None = None  #: level of each category of acquisition.log; None: unchanged

    def connection(self) -> tuple[object, ...]:
        """Settings of the writer and its outbox; a password in a file is read again at each
        login."""
        return self._replace(password="" if self.password_file else self.password)[:14]


def encode(settings: AgentSettings) -> bytes:
    """JSON document."""
    return json.dumps(settings._asdict(), separators=(",", ":")).encode()


def decode(data: bytes) -> AgentSettings:
    """Settings in a document. Raises DataError if it is invalid."""
    try:
        document: dict[str, Any] = json.loads(data)
        document["seeds"] = tuple((str(host), int(port)) for host, port in document["seeds"])
        document["modules"] = tuple(
            ModuleSettings(resource_set, source, float(interval), tuple(metrics), dict(options))
            for resource_set, source, interval, metrics, options in document["modules"]
        )
        document["owners"] = tuple(map(int, document["owners"]))
        if document["signing"] is not None:
            number, secret = document["signing"]
            document["signing"] = (str(number), str(secret))
        document["compiler"] = tuple(document["compiler"])
        return AgentSettings(**document)
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"invalid agent settings: {error}") from error


class Reload:
    """Compiles a new configuration while the probe runs: in a child, one at a time, so that no tick waits for it.

    The compiler (``AgentSettings.compiler``) reports its own errors on stderr, which it shares with the probe.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._pid = 0
        self._pipe = -1
        self._data = b""
        self._again: tuple[str, ...] = ()

    def fileno(self) -> int:
        """The descriptor to wait for, -1 if none runs."""
        return self._pipe

    def start(self, command: tuple[str, ...]) -> None:
        """Start the compiler; if one runs, the next one starts after it."""
        if self._pid:
            self._again = command
            return
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            self._pid = os.posix_spawn(
                command[0],
                command,
                dict(os.environ),
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 1)],
                setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
            )
        except OSError as error:
            os.close(ours)
            self._report(f"cannot reload the configuration: {error}; configuration unchanged")
            return
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        self._pipe, self._data = ours, b""

    def finished(self) -> AgentSettings | None:
        """The new settings if the compiler has just succeeded; None otherwise."""
        if self._pipe < 0:
            return None
        try:
            data = os.read(self._pipe, 1 << 20)
        except BlockingIOError:
            return None
        if data:
            self._data += data
            return None
        os.close(self._pipe)
        self._pipe = -1
        pid, self._pid = self._pid, 0
        _, status = os.waitpid(pid, 0)  # it has closed its output: it is about to end
        again, self._again = self._again, ()
        if again:
            self.start(again)
            return None
        return self._settings(os.waitstatus_to_exitcode(status))

    def _settings(self, code: int) -> AgentSettings | None:
        if code == 0:
            try:
                return decode(self._data)
            except DataError as error:
                self._report(str(error))
        self._report("invalid new configuration; configuration unchanged")
        return None
