"""What free-running sources with one child have in common: it is read when it prints, replaced when it is silent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.checks.timeout import timed_out
from probes.sampling.reading import Reading
from probes.tools.tool_child import ToolChild


class OneChild(ABC):
    """Base of sources that take what ``child`` prints; see ``probes.sources.Source``."""

    free_running = True

    def __init__(self, resource_set: ResourceSet, child: ToolChild, entities: list[Entity]) -> None:
        self._set = resource_set
        self._child = child
        self._entities = entities

    @abstractmethod
    def begin(self) -> None:
        """The child has been started: what it prints starts again."""

    @abstractmethod
    def take(self, lines: list[bytes], wall: float, monotonic: float) -> Reading | None:
        """The reading that these lines complete; of several the newest counts."""

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
