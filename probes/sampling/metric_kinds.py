"""Metric kinds: unit, kind, and limits that no machine can exceed.

- tasks and CPUs: PID_MAX_LIMIT (include/linux/threads.h) and the largest NR_CPUS;
- bytes of memory: 2^57, the address space of five-level paging;
- bytes per second: 10^13, above the memory bandwidth of any machine;
- events per second: 10^10, above one per clock cycle of a core;
- durations in seconds: a day.
"""

from __future__ import annotations

from acquisition.model.metric import COUNTER, GAUGE, Metric

_MAX_TASKS = float(1 << 22)
_MAX_CPUS = 8192.0
_MAX_BYTES = float(1 << 57)
MAX_BYTES_PER_SECOND = 1e13
MAX_EVENTS_PER_SECOND = 1e10
_MAX_SECONDS = 86400.0

#: Unit of CPU time of a process: 1.0 = one core; bounded by the cores of the machine.
CORES = "cores"


def tasks(name: str, text: str) -> Metric:
    """A number of processes or threads."""
    return Metric(name, "tasks", GAUGE, 0.0, _MAX_TASKS, text)


def bytes_gauge(name: str, text: str) -> Metric:
    """An amount of memory."""
    return Metric(name, "bytes", GAUGE, 0.0, _MAX_BYTES, text)


def files(name: str, text: str) -> Metric:
    """A number of files."""
    return Metric(name, "files", GAUGE, 0.0, _MAX_BYTES, text)


def byte_rate(name: str, text: str) -> Metric:
    """Bytes per second, read as a counter."""
    return Metric(name, "bytes/s", COUNTER, 0.0, MAX_BYTES_PER_SECOND, text)


def event_rate(name: str, text: str) -> Metric:
    """Events per second, read as a counter."""
    return Metric(name, "1/s", COUNTER, 0.0, MAX_EVENTS_PER_SECOND, text)


def share(name: str, text: str) -> Metric:
    """A fraction of the CPU time of all cores."""
    return Metric(name, "ratio", COUNTER, 0.0, 1.0, text)


def cores(name: str, text: str) -> Metric:
    """CPU time of a process."""
    return Metric(name, CORES, COUNTER, 0.0, _MAX_CPUS, text)


def count(name: str, text: str) -> Metric:
    """A number of CPUs."""
    return Metric(name, "count", GAUGE, 0.0, _MAX_CPUS, text)


def seconds(name: str, text: str) -> Metric:
    """A duration."""
    return Metric(name, "seconds", GAUGE, 0.0, _MAX_SECONDS, text)
