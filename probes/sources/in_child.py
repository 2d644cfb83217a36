"""A polled source in a child process, for a library that blocks: its calls may hang, the probe's tick goes on.

The child samples by a schedule of its own and writes a line per tick (``probes.sources.child_protocol``), so to the
probe it is a free-running tool like vmstat: a tick without a line becomes TIMEOUT, and after PATIENCE of them in a
row the child is killed and started again. It is a whole Python with the installed packages, unlike the probe.
"""

from __future__ import annotations

import json
import os
import sys
from signal import SIGKILL

import acquisition
import probes
from probes.checks.timeout import timed_out
from probes.reading import Reading
from probes.sources import Request
from probes.sources.child_protocol import decode
from probes.sources.one_child import OneChild
from probes.sources.tool_child import ToolChild

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


class SourceInChild(OneChild):
    """The source ``name``, whose ``create`` is in ``module``, run in a child."""

    def __init__(self, name: str, module: str, request: Request) -> None:
        child = ToolChild(command_of(module, request), request.report, f"source {name}", dict(os.environ))
        super().__init__(request.resource_set, child, [])
        self.name = name
        self._rejected = 0
        self._problem = ""

    def begin(self) -> None:
        """See ``OneChild``."""
        self._problem = ""  # was that of the child before

    def take(self, lines: list[bytes], wall: float, monotonic: float) -> Reading | None:
        """See ``OneChild``."""
        newest = None
        for line in lines:
            newest = self._taken(line, wall, monotonic) or newest
        return newest

    def _taken(self, line: bytes, wall: float, monotonic: float) -> Reading | None:
        try:
            found = decode(line, self._set, self._entities)
        except ValueError:
            self._rejected += 1
            return None
        self._child.works()
        if isinstance(found, str):  # it answers, but its library does not
            self._problem = found
            return timed_out(self._set, self._entities, wall, monotonic)
        self._problem = ""
        self._entities = found.entities
        return found

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        problem = self._child.problem or self._problem
        return {**super().account(), "problem": problem, "rejected_lines": self._rejected}
