"""Fault runner: executes the schedule, one thread for each group of kinds.

Faults of a group run one at a time.

The threads live until the run is over, because processes restarted by a fault die with the thread that started them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.chaos.faults import KINDS, Skipped
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault

_LOCK_SECONDS = 5.0


@dataclass
class Course:
    """Course of a fault. Times of CLOCK_MONOTONIC, 0 if it did not get that far."""

    fault: Fault
    made: float = 0.0
    healing: float = 0.0
    healed: float = 0.0
    skipped: str = ""
    failed: str = ""

    @property
    def active(self) -> bool:
        """Whether it is in effect now."""
        return self.made > 0.0 and not self.healed and not self.failed


class FaultRunner:
    """The threads. ``courses`` is in the order of the schedule."""

    def __init__(self, installation: Installation, schedule: Sequence[Fault]) -> None:
        self.courses = [Course(fault) for fault in schedule]
        self._installation = installation
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._count = threading.Lock()

    def start(self, began: float) -> None:
        """Begin the faults; the schedule's times count from ``began`` (monotonic)."""
        for group in sorted({KINDS[course.fault.kind].group for course in self.courses}):
            courses = [course for course in self.courses if KINDS[course.fault.kind].group == group]
            thread = threading.Thread(target=self._run, args=(courses, began), daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def done(self) -> bool:
        """Whether every fault has been healed or skipped."""
        return self._idle == len(self._threads)

    def close(self) -> None:
        """End the threads: only after everything they started was stopped."""
        self._over.set()
        for thread in self._threads:
            thread.join(10.0)

    def _run(self, courses: Sequence[Course], began: float) -> None:
        for course in courses:
            self._over.wait(max(0.0, began + course.fault.at - time.monotonic()))
            if self._over.is_set():
                break
            try:
                with self._target(course.fault):
                    self._suffer(course)
            except Skipped as reason:
                course.skipped, course.made = str(reason), 0.0
            except Exception as error:  # the others continue, and the verdict reports it
                course.failed = f"{type(error).__name__}: {error}"
        with self._count:
            self._idle += 1
        self._over.wait()

    def _suffer(self, course: Course) -> None:
        course.made = time.monotonic()
        with KINDS[course.fault.kind].make(self._installation, course.fault):
            self._over.wait(max(0.0, course.made + course.fault.seconds - time.monotonic()))
            course.healing = time.monotonic()
        course.healed = time.monotonic()

    @contextlib.contextmanager
    def _target(self, fault: Fault) -> Iterator[None]:
        """Keep other faults from the same target until the end of the block."""
        kind = KINDS[fault.kind]
        if not kind.alone:
            yield
            return
        locks = self._installation.locks
        shards = [key for key in sorted(locks) if key[0] == "shard"]
        wanted = shards if kind.on == "cluster" else [(kind.on, fault.target)]
        with contextlib.ExitStack() as stack:
            for key in wanted:
                if not locks[key].acquire(timeout=_LOCK_SECONDS):
                    raise Skipped(f"{key[0]} {key[1]} has not settled")
                stack.callback(locks[key].release)
            yield
