"""Account of the probe: cost, punctuality and sources."""

from __future__ import annotations

import os
import time

from probes.loop.module import Module
from probes.sampling.native import chosen
from probes.sampling.procfs import number_after, read_once

# -- Permissions of the probe: three capabilities (capabilities(7)) give it data that other users' processes hide.

#: With their numbers (include/uapi/linux/capability.h): to open /proc/PID/io of another user, and to read it.
_READS_OTHERS = (("CAP_DAC_READ_SEARCH", 2), ("CAP_SYS_PTRACE", 19))
_USES = (
    (_READS_OTHERS, "disk I/O of other users' processes is unknown"),
    ((("CAP_NET_ADMIN", 12),), "waits and context switches are read from /proc, which takes more CPU time"),
)


def lacking() -> str:
    """Capabilities the probe would use but does not have, and the consequences; "" if it has them."""
    held = _held()
    missing = [([name for name, bit in wanted if not held >> bit & 1], text) for wanted, text in _USES]
    return "; ".join(f"{' and '.join(names)}: {text}" for names, text in missing if names)


def reads_others() -> bool:
    """Whether the probe may read the I/O counts of other users' processes."""
    held = _held()
    if all(held >> bit & 1 for _, bit in _READS_OTHERS):
        return True
    try:
        read_once("/proc/1/io")
    except PermissionError:
        return False
    except OSError:  # this kernel does not count it for any process
        pass
    return True


def _held() -> int:
    """Effective capabilities, a bit each."""
    _, _, effective = read_once("/proc/self/status").partition(b"\nCapEff:")
    return int(effective.split(None, 1)[0], 16)


#: Reading smaps_rollup walks all pages of the process: about a millisecond.
_MEMORY_SECONDS = 120.0
_NANOSECOND = 1e-9


class Account:
    """Values for the status record; ``shardpulse status --json`` and ``/metrics`` show them."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._pss = 0
        self._reads_others = reads_others()
        self._memory_due = self._started + 3.0  # when everything is loaded

    def values(self, machine: str, modules: list[Module], monotonic: float) -> dict[str, object]:
        """Figures since the start of the probe; bytes of memory are measured now and then."""
        if monotonic >= self._memory_due:
            self._memory_due = monotonic + _MEMORY_SECONDS
            self._pss = pss_bytes(os.getpid())
        parts = {module.name: module.account() for module in modules}
        return {
            "probe": {
                "pid": os.getpid(),
                "machine": machine,
                "step": chosen().name,
                "reads_others": self._reads_others,
                "uptime_seconds": round(monotonic - self._started, 3),
                "cpu_seconds": round(time.process_time(), 6),
                "children_cpu_seconds": round(sum(children_cpu(part) for part in parts.values()), 6),
                "pss_bytes": self._pss,
                "ticks": max((module.schedule.ticks for module in modules), default=0),
                "missed_ticks": sum(module.schedule.missed for module in modules),
                "latest_seconds": max((module.schedule.latest_seconds for module in modules), default=0.0),
            },
            "sources": {module.name: module.source.name for module in modules},
            "modules": parts,
        }


def children_cpu(part: dict[str, object]) -> float:
    """CPU seconds of a module's tools, in ended and running runs."""
    ended, pids = part.get("ended_cpu_seconds", 0.0), part.get("pids", [])
    total = ended if isinstance(ended, float) else 0.0
    for pid in pids if isinstance(pids, list) else []:
        total += cpu_seconds(pid)
    return total


def cpu_seconds(pid: int) -> float:
    """CPU time of the first thread of a process (the tools have only one); 0 if it is gone."""
    try:
        return int(read_once(f"/proc/{pid}/schedstat").split()[0]) * _NANOSECOND
    except (OSError, ValueError, IndexError):
        return 0.0


def pss_bytes(pid: int) -> int:
    """Proportional set size (proc(5), smaps_rollup); 0 if it may not be read."""
    try:
        kibibytes = number_after(read_once(f"/proc/{pid}/smaps_rollup"), b"\nPss:")
    except OSError:
        return 0
    return 1024 * (kibibytes or 0)
