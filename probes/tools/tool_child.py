"""Tool process: free-running, read without blocking, restarted on failure.

It is restarted when it ends or hangs.

The child writes into a pipe. vmstat and pidstat write each line, or even each column, as
soon as it is made (measured with strace: neither buffers a tick), so no pseudo-terminal is needed.
When the probe is gone, however it ended, the next write causes SIGPIPE and ends the child:
hence the signal is reset to its default, unlike in Python's own children.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.checks.timeout import timed_out
from probes.sampling.reading import Reading

_PIPE_BYTES = 1 << 20
_CHUNK = 1 << 16
_MOST_AT_ONCE = 1 << 18  #: per read: other sources have ticks as well
_MAX_LINE = 1 << 20
#: Without a sample: a tick of pidstat has 200 bytes per process and 16,384 processes at most.
_MOST_UNANSWERED = 1 << 22
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_END_SECONDS = 0.5  #: a killed process is gone in milliseconds, unless the kernel holds it
#: After this number of ticks without an answer in a row the tool is considered hung,
PATIENCE = 3
#: unless it was started within this number of seconds and may still be at its first answer.
START_SECONDS = 10.0
_ENVIRONMENT = {"LC_ALL": "C", "S_TIME_FORMAT": "ISO", "S_COLORS": "never"}
_DEFAULTS = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXFSZ)


def find_tool(name: str) -> str | None:
    """Path of a program on PATH, None if it is not installed."""
    for directory in os.get_exec_path():
        path = f"{directory}/{name}"
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def _tool_environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "TZ") if os.environ.get(name)}
    return {**_ENVIRONMENT, "PATH": os.defpath, **kept}


class ToolChild:
    """Consecutive runs of a tool. ``problem`` is why it does not run, "" if it does.

    ``report`` takes one line for the operator whenever the tool ends by itself; messages name it
    ``name``, by default the name of the program. The default ``environment`` is one in which tools print
    the same everywhere. Only ``close`` waits.
    """

    def __init__(
        self,
        command: list[str],
        report: Callable[[str], None],
        name: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = command
        self._name = name or os.path.basename(command[0])
        self._environment = environment
        self.pid = 0
        self.starts = 0
        self.problem = ""
        self.cpu_seconds = 0.0  # of ended runs
        self._report = report
        self._pipe = -1
        self._rest = b""
        self._pause = _FIRST_PAUSE
        self._start_at = 0.0
        self._silent = 0  # ticks
        self._unanswered = 0  # bytes since the newest sample
        self._starting_until = 0.0
        self._zombies: list[int] = []

    def fileno(self) -> int:
        """The descriptor to wait for, -1 if absent."""
        return self._pipe

    def wake_at(self) -> float:
        """When ``start`` is due; inf while the tool runs."""
        return float("inf") if self.pid else self._start_at

    def start(self, monotonic: float) -> bool:
        """Start the tool if it is not running and due; returns whether it runs."""
        if self.pid or monotonic < self._start_at:
            return bool(self.pid)
        self._reap()
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            self.pid = os.posix_spawn(
                self.command[0],
                self.command,
                _tool_environment() if self._environment is None else self._environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, theirs, 1),
                ],
                setsigdef=_DEFAULTS,
                setsigmask=(),
            )
        except OSError as error:
            os.close(ours)
            self._stopped(monotonic, f"cannot be started: {error.strerror}")
            return False
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        with suppress(OSError):  # over the user's limit: the tool then waits if a tick is larger than a pipe
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._pipe, self._rest = ours, b""
        self._silent, self._starting_until = 0, monotonic + START_SECONDS
        self._unanswered = 0
        self.starts += 1
        self.problem = ""
        return True

    def lines(self, monotonic: float) -> list[bytes]:
        """Complete lines that have arrived. If the tool has ended, the next start is set; one that floods the
        probe with output other than samples is ended."""
        parts = [self._rest]
        size = 0
        while self._pipe >= 0 and size < _MOST_AT_ONCE:
            try:
                data = os.read(self._pipe, _CHUNK)
            except BlockingIOError:
                break
            if not data:
                self._ended(monotonic)
                break
            parts.append(data)
            size += len(data)
        self._unanswered += size
        if self._unanswered > _MOST_UNANSWERED and self.pid:
            self.restart(monotonic, "output exceeds the size of any sample")
        text = b"".join(parts)
        lines = text.split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) >= _MAX_LINE:  # no tool prints this: the parser rejects the rest of it
            lines.append(self._rest[: _CHUNK + 1])
            self._rest = b""
        return lines

    def works(self) -> None:
        """A sample has arrived: the next restart, if any, is a quick one."""
        self._pause = _FIRST_PAUSE
        self._silent, self._starting_until, self._unanswered = 0, 0.0, 0

    def missed(self, monotonic: float) -> None:
        """A tick has had no sample: a tool for which that is one too many is killed and restarted."""
        self._silent += 1
        if self.pid and self._silent >= PATIENCE and monotonic >= self._starting_until:
            self.restart(monotonic, "does not answer")

    def restart(self, monotonic: float, why: str) -> None:
        """Kill the tool; it is restarted after the pause."""
        self._kill()
        self._stopped(monotonic, why)

    def replace(self, command: list[str]) -> None:
        """Use another command from the next start on."""
        self.command = command

    def close(self) -> None:
        """Stop the tool permanently, and reap it: a child left to init may stay a while."""
        self._kill()
        self._start_at = float("inf")
        deadline = time.monotonic() + _END_SECONDS
        while self._zombies and time.monotonic() < deadline:
            time.sleep(0.002)
            self._reap()

    def _kill(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self.pid:
            pid, self.pid = self.pid, 0
            os.kill(pid, signal.SIGKILL)  # also ends a stopped process
            self._zombies.append(pid)
            self._reap()

    def _ended(self, monotonic: float) -> None:
        os.close(self._pipe)
        self._pipe = -1
        pid, self.pid = self.pid, 0
        self._zombies.append(pid)
        self._stopped(monotonic, self._reap() or "closed its output")

    def _reap(self) -> str:
        """Reap ended children without waiting; returns how the newest of them ended."""
        how = ""
        for pid in self._zombies[:]:
            try:
                ended, status, usage = os.wait4(pid, os.WNOHANG)
            except ChildProcessError:
                ended, status, usage = pid, 0, None
            if ended:
                self._zombies.remove(pid)
                if usage is not None:
                    self.cpu_seconds += usage.ru_utime + usage.ru_stime
                code = os.waitstatus_to_exitcode(status)
                how = f"killed by signal {-code}" if code < 0 else f"exited with {code}"
        return how

    def _stopped(self, monotonic: float, why: str) -> None:
        self.problem = why
        self._start_at = monotonic + self._pause
        self._report(f"{self._name} {why}; restarting in {self._pause:g} s")
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


class OneChild(ABC):
    """Base of sources that process the output of ``child``; see ``probes.sources.Source``."""

    free_running = True

    def __init__(self, resource_set: ResourceSet, child: ToolChild, entities: list[Entity]) -> None:
        self._set = resource_set
        self._child = child
        self._entities = entities

    @abstractmethod
    def begin(self) -> None:
        """The child has been started: its output starts again."""

    @abstractmethod
    def take(self, lines: list[bytes], wall: float, monotonic: float) -> Reading | None:
        """Reading completed by these lines; if several, the newest counts."""

    def sample(self, wall: float, monotonic: float) -> Reading | None:
        """See ``Source``."""
        del wall, monotonic
        return None

    def filenos(self) -> list[int]:
        """See ``Source``."""
        pipe = self._child.fileno()
        return [pipe] if pipe >= 0 else []

    def wake_at(self) -> float:
        """See ``Source``."""
        return self._child.wake_at()

    def service(self, wall: float, monotonic: float, ready: Collection[int]) -> Reading | None:
        """See ``Source``."""
        del ready  # there is only one
        if self._child.fileno() >= 0:
            return self.take(self._child.lines(monotonic), wall, monotonic)
        if self._child.start(monotonic):
            self.begin()
        return None

    def timed_out(self, wall: float, monotonic: float) -> Reading:
        """See ``Source``."""
        self._child.missed(monotonic)
        return timed_out(self._set, self._entities, wall, monotonic)

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        child = self._child
        return {
            "pids": [child.pid] if child.pid else [],
            "starts": child.starts,
            "problem": child.problem,
            "ended_cpu_seconds": child.cpu_seconds,
        }

    def close(self) -> None:
        """See ``Source``."""
        self._child.close()
