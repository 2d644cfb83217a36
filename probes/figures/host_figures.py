"""Host figures from /proc/stat, /proc/meminfo and /proc/vmstat (proc(5)).

They have the meaning of vmstat's: ``r`` and ``b`` as counted by the kernel (a reader of the
file is running, so an idle machine has one), memory_cache = Cached + SReclaimable, paging
in KiB, CPU shares of all ticks of the interval. Guest time is part of the kernel's user
time, and is taken out of it. Ticks that fell or jumped cost their own share only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from acquisition.model.codes import FIRST, MISSING, NAN, RATE, RESET, STUCK, VALID
from probes.checks.rate import ALL_TICKS, MOST_CPUS, TOLERANCE, growth
from probes.figures.row import CounterMemory, Row, first, gauge
from probes.sampling.procfs import OpenFile, number_after, whole

_KIB = 1024.0
SHARES = (
    "cpu_user_ratio",
    "cpu_system_ratio",
    "cpu_idle_ratio",
    "cpu_iowait_ratio",
    "cpu_steal_ratio",
    "cpu_guest_ratio",
)
#: idle, iowait, steal and guest may step back by a few ticks; a second of them is not jitter
CPU_JITTER_TICKS = 100
#: Cores with higher numbers are not examined one by one.
MOST_CORES = 1024

Ticks = Mapping[int, Sequence[int]]  #: of each core by its number: as ``cpu_ticks``


class CpuFigures:
    """/proc/stat: shares of CPU time, interrupts, context switches, tasks, CPUs."""

    metrics = (
        *SHARES,
        "interrupts_per_second",
        "context_switches_per_second",
        "tasks_runnable",
        "tasks_blocked",
        "cpu_count",
        "cpu_worst_core_ratio",
        "cpu_core_spread_ratio",
    )

    def __init__(self, proc: str = "/proc", hertz: int = 100) -> None:
        self.files = (OpenFile(f"{proc}/stat"),)
        self._hertz = hertz
        self._counters = CounterMemory()
        self._ticks: list[int] = []
        self._cores: Ticks = {}
        self._cpus = 0

    def read(self, seconds: float, row: Row) -> None:
        """See ``Figures``."""
        text = self.files[0].read_if_there()
        cpus = text.count(b"\ncpu")
        self._shares(cpu_ticks(text), cpus, seconds, row)
        count = self._counters.rate
        row["interrupts_per_second"] = count("intr", number_after(text, b"\nintr "), seconds)
        row["context_switches_per_second"] = count("ctxt", number_after(text, b"\nctxt "), seconds)
        row["tasks_runnable"] = gauge(number_after(text, b"\nprocs_running "))
        row["tasks_blocked"] = gauge(number_after(text, b"\nprocs_blocked "))
        row["cpu_count"] = gauge(cpus or None)
        old, self._cores = self._cores, core_ticks(text)
        row["cpu_worst_core_ratio"], row["cpu_core_spread_ratio"] = worst_core(
            self._cores, old, ALL_TICKS * (self._hertz * growth(seconds))
        )

    def _shares(self, ticks: list[int], cpus: int, seconds: float, row: Row) -> None:
        old, self._ticks = self._ticks, ticks
        most_cpus, self._cpus = max(cpus, self._cpus), cpus
        if not ticks:
            return
        if not old:
            first(SHARES, row)
            return
        most = (most_cpus or MOST_CPUS) * (self._hertz * growth(seconds))
        row.update(zip(SHARES, shares(ticks, old, most, cpus * (self._hertz * seconds)), strict=True))

    def close(self) -> None:
        """See ``Figures``."""
        self.files[0].close()


def shares(new: Sequence[int], old: Sequence[int], most: float, expected: float) -> list[tuple[float, int]]:
    """Parts of all ticks between two readings, and their codes: RESET for ticks that fell, RATE for those that jumped.

    One kind can have grown by ``most`` ticks, all kinds together by ``expected`` (0: unknown), used instead of the sum
    if one of them is wrong. If only the sum is too large, each that could account for the excess is RATE; if
    ticks are missing, those that fell a little were corrected, which is not jitter.
    """
    grown = [a - b for a, b in zip(new, old, strict=True)]
    codes = [RESET if each < -CPU_JITTER_TICKS else RATE if each > most else VALID for each in grown]
    total, largest = _good(grown, codes)
    excess = total - ALL_TICKS * most
    if excess > 0:
        least = excess if excess <= largest else 1  # more than one is wrong
        codes = [RATE if each >= least else code for each, code in zip(grown, codes, strict=True)]
        total, _ = _good(grown, codes)
    if total < (1.0 - TOLERANCE) * expected:
        codes = [RESET if each < 0 else code for each, code in zip(grown, codes, strict=True)]
    if any(codes):
        total = max(total, expected)
    if total <= 0:
        return [(NAN, code or STUCK) for code in codes]
    return [(NAN if code == RESET else max(each, 0) / total, code) for each, code in zip(grown, codes, strict=True)]


def _good(grown: Sequence[int], codes: Sequence[int]) -> tuple[float, int]:
    """Sum and maximum of the VALID ones; those that fell a little have not grown."""
    good = [max(each, 0) for each, code in zip(grown, codes, strict=True) if code == VALID]
    return float(sum(good)), max(good, default=0)


def cpu_ticks(text: bytes) -> list[int]:
    """user, system, idle, iowait, steal, guest of all CPUs in USER_HZ since boot; empty if unreadable.

    user includes nice and excludes guest time, system includes interrupts, guest includes niced guests.
    """
    name, *words = text.partition(b"\n")[0].split() or [b""]
    return ticks_of(words) if name == b"cpu" else []


def core_ticks(text: bytes) -> dict[int, Sequence[int]]:
    """The same for each core by its number; unreadable ones are left out."""
    found: dict[int, Sequence[int]] = {}
    for line in text.split(b"\n")[1:]:
        if not line.startswith(b"cpu"):
            break
        name, *words = line.split()
        number = whole(name[3:])
        ticks: list[int] = ticks_of(words)
        if number is not None and number < MOST_CORES and sum(ticks) > 0:
            found[number] = ticks
    return found


def worst_core(new: Ticks, old: Ticks, most: float) -> tuple[tuple[float, int], tuple[float, int]]:
    """Busy part of the busiest core between two readings, and its excess over the idlest; with codes.

    Busy is all but idle and iowait. A new core, or one whose ticks stand still, does not count; if the ticks of
    one fell, or grew by more than ``most``, the busiest is unknown.
    """
    grown = [[a - b for a, b in zip(ticks, old[core], strict=True)] for core, ticks in new.items() if core in old]
    sums = [(sum(ticks), max(0, ticks[2] + ticks[3])) for ticks in grown]
    code = FIRST if new else MISSING
    if any(total < -CPU_JITTER_TICKS for total, _ in sums):
        code = RESET
    elif any(float(total) > most for total, _ in sums):
        code = RATE
    busy = [max(0.0, 1.0 - float(idle) / float(total)) for total, idle in sums if total > 0]
    if code != FIRST or not busy:
        return (NAN, code), (NAN, code)
    return (max(busy), VALID), (max(busy) - min(busy), VALID)


def ticks_of(words: Sequence[bytes]) -> list[int]:
    """``cpu_ticks`` from the numbers of one line."""
    if len(words) < 4 or not all(word.isdigit() for word in words):
        return []
    fields = [number for word in words[:10] if (number := whole(word)) is not None]
    if len(fields) < min(10, len(words)):
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
