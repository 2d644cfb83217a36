"""One pidstat over a fixed set of processes, and when a tick of it is complete.

Nothing in the output tells that a tick is complete, and pidstat writes every column with
a system call of its own, so a tick is read a moment after it began. It is complete when
every process has its row, or, a while after the last row, when those without one have
ended. A tick that makes no progress is taken as it is: what then comes of it is dropped, up to
the header of the next one.
"""

from __future__ import annotations

from acquisition.model.metric import ResourceSet
from probes.discovery import Found, still_there
from probes.sources.pidstat import PidstatParser, ProcessTick
from probes.sources.tool_child import ToolChild

#: How long to wait for more of a tick before reading on.
_MOMENT = 0.02
#: After so long without another row /proc is asked whether those that are missing have ended.
_QUIET = 0.1
#: For rows of living processes this part of the interval is waited, and not longer than so many seconds.
_PART, _LONGEST = 0.25, 1.0
NEVER = float("inf")


class Run:
    """``found`` are the processes that have to have a row; ``began`` is when the newest tick began to arrive."""

    def __init__(
        self, child: ToolChild, resource_set: ResourceSet, found: dict[int, Found], proc: str, interval: float
    ) -> None:
        self.child = child
        self.found = found
        self.began = 0.0
        self.read_at = NEVER  # when to read on; never: when something comes
        self._set = resource_set
        self._proc = proc
        self._patience = min(_LONGEST, _PART * interval)
        self._parser = PidstatParser(resource_set)
        self._taken: str | None = None  # the time of the tick that was taken, until the next header
        self._arrived = 0.0
        self._progress = 0.0  # when a row came last

    def watch(self, found: dict[int, Found]) -> None:
        """From now on these have to have a row."""
        self.found = found

    def start(self, monotonic: float) -> None:
        """Start the tool if that is due."""
        if self.child.start(monotonic):
            self._parser = PidstatParser(self._set)
            self._taken = None
            self.read_at = NEVER

    def begin(self, monotonic: float) -> None:
        """Something begins to arrive: it is read a moment later."""
        self._arrived = self._progress = monotonic
        self.read_at = monotonic + _MOMENT

    def read(self, monotonic: float) -> ProcessTick | None:
        """Take in what has come; the tick when it is complete."""
        before = self._parser.parsed
        tick = self._feed(monotonic)
        if self._parser.parsed != before:
            self._progress = monotonic
        self.read_at = monotonic + _MOMENT
        if tick is None and self._complete(monotonic):
            tick = self._flush()
            self.read_at = NEVER
        return tick

    def _feed(self, monotonic: float) -> ProcessTick | None:
        """The newest tick that the next one has ended before it was complete."""
        tick = None
        for line in self.child.lines(monotonic):
            done = self._parser.feed(line)
            if done is not None and done.time != self._taken:
                tick = done
                self.began = self._arrived
            if done is not None or line.startswith(b"#"):
                self._taken = None
                self._arrived = monotonic
        return tick

    def _complete(self, monotonic: float) -> bool:
        parser = self._parser
        if not self.child.pid or parser.time == self._taken:
            return True
        silent = monotonic - self._progress
        if not parser.gathered:
            return silent >= _QUIET
        missing = [found for pid, found in self.found.items() if pid not in parser.gathered]
        if not missing:
            return True
        if silent < _QUIET:
            return False
        self.read_at = monotonic + _QUIET
        return silent >= self._patience or not any(still_there(self._proc, found) for found in missing)

    def _flush(self) -> ProcessTick | None:
        """The tick in progress, unless it is the rest of one that was taken."""
        tick = self._parser.flush()
        if tick is None or tick.time == self._taken:
            return None
        self._taken = tick.time
        self.began = self._arrived
        return tick

    @property
    def rejected(self) -> int:
        """Lines that could not be understood."""
        return self._parser.rejected.count
