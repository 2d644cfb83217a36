"""A new configuration while the probe runs: compiled by a child, so that no tick waits for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from acquisition.errors import DataError
from probes.loop.agent_settings import AgentSettings, decode


class Reload:
    """Runs the compiler (``AgentSettings.compiler``), one at a time, and takes its document.

    The compiler reports its own errors on stderr, which it shares with the probe.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._pid = 0
        self._pipe = -1
        self._data = b""
        self._again: tuple[str, ...] = ()

    def fileno(self) -> int:
        """The descriptor to wait for, -1 when none runs."""
        return self._pipe

    def start(self, command: tuple[str, ...]) -> None:
        """Start the compiler; while one runs, the next one starts after it."""
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
            self._report(f"the configuration cannot be reread: {error}; the old one stays in force")
            return
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        self._pipe, self._data = ours, b""

    def finished(self) -> AgentSettings | None:
        """The new settings when the compiler has just ended well; None otherwise."""
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
        self._report("the new configuration is not acceptable; the old one stays in force")
        return None
