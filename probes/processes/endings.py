"""Exit detection of processes by pidfd_open(2), reaped or not (Linux 5.3).

Without pidfd_open, none counts as ended.

A process that has not been reaped yet still has its files in /proc, and would be taken for an idle one.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable

from probes.vms.guest_process import Found


class Endings:
    """Keeps a descriptor open for each followed process."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._descriptors: dict[tuple[int, int], int] = {}  # by pid and start

    def follow(self, processes: Iterable[Found]) -> None:
        """Follow exactly these."""
        wanted = {(found.pid, found.start) for found in processes}
        for process in self._descriptors.keys() - wanted:
            descriptor = self._descriptors.pop(process)
            self._poll.unregister(descriptor)
            os.close(descriptor)
        for process in wanted - self._descriptors.keys():
            try:
                self._descriptors[process] = descriptor = os.pidfd_open(process[0])
            except (AttributeError, OSError):  # an old kernel; or it has ended, as its files show
                continue
            self._poll.register(descriptor, select.POLLIN)

    def ended(self) -> list[int]:
        """Pids of those that have ended."""
        if not self._descriptors:
            return []
        ready = {descriptor for descriptor, _ in self._poll.poll(0)}
        return [pid for (pid, _), descriptor in self._descriptors.items() if descriptor in ready] if ready else []

    def close(self) -> None:
        """Follow none."""
        self.follow(())
