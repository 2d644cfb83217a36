"""A polled source in a child process, for a library that blocks: its calls may hang, the probe's tick goes on.

The child samples by a schedule of its own and writes a line per tick (``probes.sources.child_protocol``), so to the
probe it is a free-running tool like vmstat: a tick without a line becomes TIMEOUT, and after PATIENCE of them in a
row the child is killed and started again. It is a whole Python with the installed packages, unlike the probe.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from signal import SIGKILL

import acquisition
import probes
from acquisition.wire.table import Entity
from probes.checks.timeout import timed_out
from probes.reading import Reading
from probes.sources import Request
from probes.sources.child_protocol import decode
from probes.sources.tool_child import PATIENCE, ToolChild

#: -I keeps the environment of who started the probe out; -X no_debug_ranges saves memory.
_FLAGS = ("-I", "-X", "no_debug_ranges")
_BOOT = "import sys;sys.path[:0]=sys.argv[2:];from probes.sources.child_main import main;main(sys.argv[1])"


def command_of(module: str, request: Request) -> list[str]:
    """The command line of the child; it dies with this process, even when that is killed."""
    selection, interval = request.discovery.settings
    task = {
        "module": module,
        "resource_set": request.resource_set.name,
        "metrics": [metric.name for metric in request.resource_set.metrics],
        "interval": request.interval,
        "host": request.facts.name,
        "selection": selection._asdict(),
        "discovery_interval": interval,
    }
    lifeline = f"{acquisition.__path__[0]}/lifeline.py"  # by path: what it imports is not for a probe
    tied = [sys.executable, "-I", "-S", lifeline, str(int(SIGKILL)), str(os.getpid())]
    return [*tied, sys.executable, *_FLAGS, "-c", _BOOT, json.dumps(task), os.path.dirname(probes.__path__[0])]


class SourceInChild:
    """The source ``name``, whose ``create`` is in ``module``, run in a child."""

    free_running = True

    def __init__(self, name: str, module: str, request: Request) -> None:
        self.name = name
        self._set = request.resource_set
        self._child = ToolChild(command_of(module, request), request.report, f"source {name}", dict(os.environ))
        self._entities: list[Entity] = []
        self._silent = 0
        self._rejected = 0
        self._problem = ""

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
        """See ``Source``; of several lines the newest counts."""
        del ready  # there is only one
        child = self._child
        if child.fileno() < 0:
            child.start(monotonic)
            return None
        newest = None
        for line in child.lines(monotonic):
            newest = self._taken(line, wall, monotonic) or newest
        return newest

    def _taken(self, line: bytes, wall: float, monotonic: float) -> Reading | None:
        try:
            found = decode(line, self._set, self._entities)
        except ValueError:
            self._rejected += 1
            return None
        self._child.works()
        self._silent = 0
        if isinstance(found, str):  # it answers, but its library does not
            self._problem = found
            return timed_out(self._set, self._entities, wall, monotonic)
        self._problem = ""
        self._entities = found.entities
        return found

    def timed_out(self, wall: float, monotonic: float) -> Reading:
        """See ``Source``; a child that has been silent for too long is killed."""
        self._silent += 1
        if self._silent >= PATIENCE and self._child.pid:
            self._silent = 0
            self._child.restart(monotonic, "does not answer")
        return timed_out(self._set, self._entities, wall, monotonic)

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        child = self._child
        return {
            "pids": [child.pid] if child.pid else [],
            "starts": child.starts,
            "problem": child.problem or self._problem,
            "ended_cpu_seconds": child.cpu_seconds,
            "rejected_lines": self._rejected,
        }

    def close(self) -> None:
        """See ``Source``."""
        self._child.close()
