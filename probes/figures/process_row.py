"""Row of one process: columns, their files, units."""

from __future__ import annotations

from acquisition.model.metric import INFINITY
from probes.checks.rate import growth
from probes.figures.taskstats import TaskStats
from probes.metrics import PROCESSES

_PLACES = {metric.name: place for place, metric in enumerate(PROCESSES.metrics)}
#: Columns of a row of PROCESSES.
USER, SYSTEM, GUEST = _PLACES["cpu_user_ratio"], _PLACES["cpu_system_ratio"], _PLACES["cpu_guest_ratio"]
WAIT, ALL_CPU = _PLACES["cpu_wait_ratio"], _PLACES["cpu_ratio"]
MINOR, MAJOR = _PLACES["minor_faults_per_second"], _PLACES["major_faults_per_second"]
VIRTUAL, RESIDENT, SHARE = (_PLACES[f"memory_{name}"] for name in ("virtual_bytes", "resident_bytes", "ratio"))
READ, WRITTEN = _PLACES["disk_read_bytes_per_second"], _PLACES["disk_write_bytes_per_second"]
CANCELLED, DELAY = _PLACES["disk_write_cancelled_bytes_per_second"], _PLACES["io_delay_ticks"]
VOLUNTARY, INVOLUNTARY = _PLACES["voluntary_switches_per_second"], _PLACES["involuntary_switches_per_second"]
WIDTH = len(_PLACES)

FILES = ("stat", "status", "io", "schedstat")
#: Columns from each of FILES; ``stat`` is always read: it shows whether the process lives.
COLUMNS: tuple[tuple[int, ...], ...] = (
    (USER, SYSTEM, GUEST, ALL_CPU, MINOR, MAJOR, DELAY, VIRTUAL, RESIDENT, SHARE),
    (VOLUNTARY, INVOLUNTARY),
    (READ, WRITTEN, CANCELLED),
    (WAIT,),
)


class Units:
    """Factors that turn the growth of one tick into figures; ``begin`` once per tick. ``by_threads``: no process can
    run for longer than its threads; RATE."""

    __slots__ = (
        "_by_threads", "hertz", "memory_bytes", "page_size", "per_second", "per_tick", "task_stats", "thread_cores",
    )  # fmt: skip

    def __init__(
        self, hertz: int, page_size: int, task_stats: TaskStats | None = None, by_threads: bool = False
    ) -> None:
        self.task_stats = task_stats
        self.thread_cores = INFINITY  #: maximum per thread
        self._by_threads = by_threads
        self.hertz = hertz
        self.page_size = page_size
        self.per_second = self.per_tick = 0.0
        self.memory_bytes = 0.0

    def begin(self, seconds: float, memory_bytes: float) -> None:
        """Start a tick, ``seconds`` of the monotonic clock after the previous one."""
        self.per_second = 1.0 / seconds if seconds > 0 else 0.0
        self.per_tick = self.per_second / self.hertz
        self.memory_bytes = memory_bytes
        if self._by_threads and seconds > 0:
            self.thread_cores = growth(seconds) / seconds
