"""The host's own figures from /proc/stat, /proc/meminfo and /proc/vmstat (proc(5)).

They mean what vmstat prints: ``r`` and ``b`` as the kernel counts them (whoever reads the
file is running, so an idle machine has one), memory_cache = Cached + SReclaimable, paging
in KiB, CPU shares of all ticks of the interval. Guest time is part of the kernel's user
time, and is taken out of it.
"""

from __future__ import annotations

from acquisition.model.codes import NAN, RESET, STUCK, VALID
from probes.procfs import OpenFile, number_after, whole
from probes.rates import differences
from probes.sources.figures import CounterMemory, Row, first, gauge

_KIB = 1024.0
_SHARES = (
    "cpu_user_ratio",
    "cpu_system_ratio",
    "cpu_idle_ratio",
    "cpu_iowait_ratio",
    "cpu_steal_ratio",
    "cpu_guest_ratio",
)
#: idle, iowait, steal and guest may step back by a few ticks; a second of them is no jitter
CPU_JITTER_TICKS = 100


class CpuFigures:
    """/proc/stat: shares of CPU time, interrupts, context switches, tasks, CPUs."""

    metrics = (
        *_SHARES,
        "interrupts_per_second",
        "context_switches_per_second",
        "tasks_runnable",
        "tasks_blocked",
        "cpu_count",
    )

    def __init__(self, proc: str = "/proc") -> None:
        self.files = (OpenFile(f"{proc}/stat"),)
        self._counters = CounterMemory()
        self._ticks: list[int] = []

    def read(self, seconds: float, row: Row) -> None:
        """See ``Figures``."""
        text = self.files[0].read_if_there()
        self._shares(cpu_ticks(text), row)
        count = self._counters.rate
        row["interrupts_per_second"] = count("intr", number_after(text, b"\nintr "), seconds)
        row["context_switches_per_second"] = count("ctxt", number_after(text, b"\nctxt "), seconds)
        row["tasks_runnable"] = gauge(number_after(text, b"\nprocs_running "))
        row["tasks_blocked"] = gauge(number_after(text, b"\nprocs_blocked "))
        row["cpu_count"] = gauge(text.count(b"\ncpu") or None)

    def _shares(self, ticks: list[int], row: Row) -> None:
        old, self._ticks = self._ticks, ticks
        if not ticks:
            return
        if not old:
            first(_SHARES, row)
            return
        grown, codes = differences(ticks, old, CPU_JITTER_TICKS)
        total = float(sum(map(int, grown))) if codes is None or RESET not in codes else 0.0
        if codes is not None and RESET in codes:
            row.update((name, (NAN, RESET)) for name in _SHARES)
        elif total <= 0:
            row.update((name, (NAN, STUCK)) for name in _SHARES)
        else:
            row.update((name, (float(each) / total, VALID)) for name, each in zip(_SHARES, grown, strict=True))

    def close(self) -> None:
        """See ``Figures``."""
        self.files[0].close()


def cpu_ticks(text: bytes) -> list[int]:
    """user, system, idle, iowait, steal, guest of all CPUs in USER_HZ since boot; empty when unreadable.

    user has nice in it and guest time taken out, system has interrupts in it, guest has niced guests in it.
    """
    line = text.partition(b"\n")[0].split()
    if len(line) < 5 or line[0] != b"cpu" or not all(word.isdigit() for word in line[1:]):
        return []
    fields = [number for word in line[1:11] if (number := whole(word)) is not None]
    if len(fields) < min(10, len(line) - 1):
        return []
    fields += [0] * (10 - len(fields))  # kernels before 2.6.33 have fewer
    user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice = fields
    guests = guest + guest_nice
    return [user + nice - guests, system + irq + softirq, idle, iowait, steal, guests]


class MemoryFigures:
    """/proc/meminfo: memory and swap."""

    metrics = (
        "swap_used_bytes",
        "memory_free_bytes",
        "memory_buffers_bytes",
        "memory_cache_bytes",
        "memory_total_bytes",
        "memory_available_bytes",
    )

    def __init__(self, proc: str = "/proc") -> None:
        self.files = (OpenFile(f"{proc}/meminfo"),)

    def read(self, seconds: float, row: Row) -> None:  # noqa: ARG002 - gauges need no interval
        """See ``Figures``."""
        text = b"\n" + self.files[0].read_if_there()
        row["memory_total_bytes"] = gauge(number_after(text, b"\nMemTotal:"), _KIB)
        row["memory_free_bytes"] = gauge(number_after(text, b"\nMemFree:"), _KIB)
        row["memory_available_bytes"] = gauge(number_after(text, b"\nMemAvailable:"), _KIB)
        row["memory_buffers_bytes"] = gauge(number_after(text, b"\nBuffers:"), _KIB)
        cached, slab = number_after(text, b"\nCached:"), number_after(text, b"\nSReclaimable:")
        row["memory_cache_bytes"] = gauge(None if cached is None else cached + (slab or 0), _KIB)
        swap, free = number_after(text, b"\nSwapTotal:"), number_after(text, b"\nSwapFree:")
        row["swap_used_bytes"] = gauge(None if swap is None or free is None else swap - free, _KIB)

    def close(self) -> None:
        """See ``Figures``."""
        self.files[0].close()


class PagingFigures:
    """/proc/vmstat: swap and block traffic."""

    metrics = (
        "swap_in_bytes_per_second",
        "swap_out_bytes_per_second",
        "block_in_bytes_per_second",
        "block_out_bytes_per_second",
    )

    def __init__(self, proc: str = "/proc", page_size: int = 4096) -> None:
        self.files = (OpenFile(f"{proc}/vmstat"),)
        self._counters = CounterMemory()
        self._lines = (
            ("swap_in_bytes_per_second", b"\npswpin ", float(page_size)),
            ("swap_out_bytes_per_second", b"\npswpout ", float(page_size)),
            ("block_in_bytes_per_second", b"\npgpgin ", _KIB),
            ("block_out_bytes_per_second", b"\npgpgout ", _KIB),
        )

    def read(self, seconds: float, row: Row) -> None:
        """See ``Figures``."""
        text = self.files[0].read_if_there()
        for metric, label, scale in self._lines:
            row[metric] = self._counters.rate(metric, number_after(text, label), seconds, scale)

    def close(self) -> None:
        """See ``Figures``."""
        self.files[0].close()
