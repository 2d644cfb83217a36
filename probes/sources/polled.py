"""What polled sources have in common: no descriptors to wait for, no timers, no children."""

from __future__ import annotations

from collections.abc import Collection

from probes.sampling.reading import Reading


class Polled:
    """Base of sources whose ``sample`` reads on demand; see ``probes.sources.Source``."""

    free_running = False

    def filenos(self) -> list[int]:
        """None to wait for."""
        return []

    def wake_at(self) -> float:
        """Never."""
        return float("inf")

    def service(self, wall: float, monotonic: float, ready: Collection[int]) -> Reading | None:
        """Nothing comes by itself."""
        del wall, monotonic, ready
        return None

    def timed_out(self, wall: float, monotonic: float) -> Reading | None:
        """A read of /proc cannot be interrupted, so it never times out by itself."""
        del wall, monotonic
        return None
