"""The metric tables: every column that shardpulse knows, in wire order.

Names, order and units are the same whatever the source (vmstat, pidstat, procfs), so
that a decision rule never asks where a figure came from. ``low`` and ``high`` are what
no machine can leave; limits that depend on the machine that was sampled (CPU within its
cores, bytes within its memory) are added by the range check from the reading.
``docs/metrics.md`` is generated from here (``python -m probes.metrics``).

The absolute limits:

- tasks and CPUs: PID_MAX_LIMIT (include/linux/threads.h) and the largest NR_CPUS;
- bytes of memory: 2^57, the address space of five-level paging;
- bytes per second: 10^13, above the memory bandwidth of any machine;
- events per second: 10^10, above one per clock cycle of a core.
"""

from __future__ import annotations

from acquisition.model.metric import COUNTER, GAUGE, HOST_SET, Metric, ResourceSet

_MAX_TASKS = float(1 << 22)
_MAX_CPUS = 8192.0
_MAX_BYTES = float(1 << 57)
_MAX_BYTES_PER_SECOND = 1e13
_MAX_EVENTS_PER_SECOND = 1e10

#: Unit of CPU time of a process: 1.0 = one core; bounded by the cores of the machine.
CORES = "cores"


def _tasks(name: str, text: str) -> Metric:
    return Metric(name, "tasks", GAUGE, 0.0, _MAX_TASKS, text)


def _bytes(name: str, text: str) -> Metric:
    return Metric(name, "bytes", GAUGE, 0.0, _MAX_BYTES, text)


def _byte_rate(name: str, text: str) -> Metric:
    return Metric(name, "bytes/s", COUNTER, 0.0, _MAX_BYTES_PER_SECOND, text)


def _event_rate(name: str, text: str) -> Metric:
    return Metric(name, "1/s", COUNTER, 0.0, _MAX_EVENTS_PER_SECOND, text)


def _share(name: str, text: str) -> Metric:
    return Metric(name, "ratio", COUNTER, 0.0, 1.0, text)


def _cores(name: str, text: str) -> Metric:
    return Metric(name, CORES, COUNTER, 0.0, _MAX_CPUS, text)


def _count(name: str, text: str) -> Metric:
    return Metric(name, "count", GAUGE, 0.0, _MAX_CPUS, text)


def _pressure(name: str, text: str) -> Metric:
    # stall time and interval come from two clocks: a fully stalled interval reads 1.0 give or take
    return Metric(name, "ratio", COUNTER, 0.0, 1.05, text)


_NETWORK = (
    _byte_rate("network_receive_bytes_per_second", "bytes received"),
    _byte_rate("network_transmit_bytes_per_second", "bytes sent"),
)

HOST = ResourceSet(
    HOST_SET,
    (
        _tasks("tasks_runnable", "tasks running or waiting for a core (vmstat r)"),
        _tasks("tasks_blocked", "tasks blocked on I/O (vmstat b)"),
        _bytes("swap_used_bytes", "swap in use (vmstat swpd)"),
        _bytes("memory_free_bytes", "memory that nobody uses (vmstat free, MemFree)"),
        _bytes("memory_buffers_bytes", "buffers of block devices (vmstat buff, Buffers)"),
        _bytes("memory_cache_bytes", "page cache and reclaimable slab (vmstat cache, Cached + SReclaimable)"),
        _byte_rate("swap_in_bytes_per_second", "read back from swap (vmstat si)"),
        _byte_rate("swap_out_bytes_per_second", "written to swap (vmstat so)"),
        _byte_rate("block_in_bytes_per_second", "read from block devices (vmstat bi)"),
        _byte_rate("block_out_bytes_per_second", "written to block devices (vmstat bo)"),
        _event_rate("interrupts_per_second", "interrupts, the clock included (vmstat in)"),
        _event_rate("context_switches_per_second", "context switches (vmstat cs)"),
        _share(
            "cpu_user_ratio",
            "CPU time in user mode, nice included, of all cores; guests excluded, except from a vmstat without a gu "
            "column (procps 3), which cannot tell them apart",
        ),
        _share("cpu_system_ratio", "CPU time in the kernel, interrupts included, of all cores"),
        _share("cpu_idle_ratio", "CPU time idle without outstanding I/O, of all cores"),
        _share("cpu_iowait_ratio", "CPU time idle with outstanding I/O, of all cores"),
        _share("cpu_steal_ratio", "CPU time that the hypervisor gave to others, of all cores"),
        _share("cpu_guest_ratio", "CPU time that ran guests, niced guests included, of all cores"),
        _bytes("memory_total_bytes", "memory of the host (MemTotal)"),
        _bytes("memory_available_bytes", "memory that could be had without swapping (MemAvailable)"),
        _count("cpu_count", "CPUs online"),
        *_NETWORK,
        Metric(
            "link_speed_bytes_per_second",
            "bytes/s",
            GAUGE,
            0.0,
            _MAX_BYTES_PER_SECOND,
            "speed of the links that are up, if all have one",
        ),
        _pressure("pressure_cpu_some_ratio", "time in which some task waited for a core (PSI)"),
        _pressure("pressure_memory_some_ratio", "time in which some task waited for memory (PSI)"),
        _pressure("pressure_memory_full_ratio", "time in which all tasks waited for memory (PSI)"),
        _pressure("pressure_io_some_ratio", "time in which some task waited for I/O (PSI)"),
        _pressure("pressure_io_full_ratio", "time in which all tasks waited for I/O (PSI)"),
    ),
)

_PROCESS_METRICS = (
    _cores("cpu_user_ratio", "CPU time in user mode, guests excluded (pidstat %usr)"),
    _cores("cpu_system_ratio", "CPU time in the kernel (pidstat %system)"),
    _cores("cpu_guest_ratio", "CPU time that ran a guest (pidstat %guest)"),
    _cores("cpu_wait_ratio", "time that its first thread was runnable and waited for a core (pidstat %wait)"),
    _cores("cpu_ratio", "CPU time in all: user, guest and kernel (pidstat %CPU)"),
    _event_rate("minor_faults_per_second", "page faults without I/O (pidstat minflt/s)"),
    _event_rate("major_faults_per_second", "page faults with I/O (pidstat majflt/s)"),
    _bytes("memory_virtual_bytes", "address space in use (pidstat VSZ)"),
    _bytes("memory_resident_bytes", "memory in use (pidstat RSS)"),
    Metric("memory_ratio", "ratio", GAUGE, 0.0, 1.0, "resident memory of the host's memory (pidstat %MEM)"),
    _byte_rate("disk_read_bytes_per_second", "read from storage (pidstat kB_rd/s)"),
    _byte_rate("disk_write_bytes_per_second", "written, or to be written, to storage (pidstat kB_wr/s)"),
    _byte_rate("disk_write_cancelled_bytes_per_second", "writes that a truncation saved (pidstat kB_ccwr/s)"),
    Metric(
        "io_delay_ticks",
        "ticks",
        COUNTER,
        0.0,
        _MAX_EVENTS_PER_SECOND,
        "clock ticks (1/100 s) of waiting for block I/O in the interval, not per second (pidstat iodelay)",
    ),
    _event_rate("voluntary_switches_per_second", "times its first thread gave up its core (pidstat cswch/s)"),
    _event_rate("involuntary_switches_per_second", "times its first thread lost its core (pidstat nvcswch/s)"),
)

PROCESSES = ResourceSet("processes", _PROCESS_METRICS)

VMS = ResourceSet(
    "vms",
    (
        *_PROCESS_METRICS,
        _count("vcpu_count", "virtual CPUs of the guest (qemu -smp)"),
        _bytes("memory_assigned_bytes", "memory given to the guest (qemu -m)"),
        *_NETWORK,
    ),
)

RESOURCE_SETS: dict[str, ResourceSet] = {each.name: each for each in (HOST, PROCESSES, VMS)}

#: Columns that vmstat can fill (of HOST) and pidstat can fill (of PROCESSES and VMS).
VMSTAT_METRICS: tuple[str, ...] = tuple(metric.name for metric in HOST.metrics[:18])
PIDSTAT_METRICS: tuple[str, ...] = tuple(metric.name for metric in _PROCESS_METRICS)

#: Gauges of bytes that lie within the memory of the machine. Virtual and assigned
#: memory do not (overcommitment), nor does swap.
WITHIN_MEMORY: frozenset[str] = frozenset(
    {
        "memory_free_bytes",
        "memory_buffers_bytes",
        "memory_cache_bytes",
        "memory_total_bytes",
        "memory_available_bytes",
        "memory_resident_bytes",
    }
)


def markdown() -> str:
    """The metric tables as Markdown: what ``docs/metrics.md`` holds."""
    parts = [
        "# Metrics\n",
        "Generated from `probes/metrics.py` by `python -m probes.metrics > docs/metrics.md`.\n",
        "Names carry base units, and mean the same from every source. A counter is read as a counter and sent as a",
        "rate. Low and high are what no machine can leave; the range check adds the limits of the machine that was",
        "sampled: `cores` lie within its cores, the memory gauges of the host and resident memory within its memory.",
        "What cannot be read is MISSING, never 0.",
    ]
    for resource_set in RESOURCE_SETS.values():
        parts.append(f"\n## {resource_set.name}\n\n| metric | unit | kind | low | high | meaning |")
        parts.append("|---|---|---|---|---|---|")
        parts.extend(
            f"| `{m.name}` | {m.unit} | {m.kind} | {m.low:g} | {m.high:g} | {m.help} |" for m in resource_set.metrics
        )
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
