"""Metric tables: every built-in column, in wire order.

Names, order and units are the same whatever the source (vmstat, pidstat, procfs), so
that a decision rule is independent of the source of a figure. ``low`` and ``high`` are limits
that no machine can exceed; limits that depend on the sampled machine (CPU within its
cores, bytes within its memory) are added by the check ``rate`` from the reading.
The limits of each kind are in ``probes.sampling.metric_kinds``; ``docs/metrics.md`` is generated from here
(``python -m probes.metrics``). A new metric of the host is one file in HOST_FIGURES.
"""

from __future__ import annotations

from importlib import import_module

from acquisition.model import vm_state
from acquisition.model.metric import COUNTER, GAUGE, HOST_SET, Metric, ResourceSet
from probes.sampling.metric_kinds import (
    MAX_BYTES_PER_SECOND,
    MAX_EVENTS_PER_SECOND,
    byte_rate,
    bytes_gauge,
    cores,
    count,
    event_rate,
    files,
    seconds,
    share,
    tasks,
)

#: Files with figures of the host beside those in the table below: each has ``METRICS``, the rows it adds to
#: the set in this order, and ``create(facts)`` (``probes.figures.row.Figures``). New ones go to the end.
HOST_FIGURES = ("probes.figures.pressure", "probes.figures.hugepages", "probes.figures.vms_suffering")

_NETWORK = (
    byte_rate("network_receive_bytes_per_second", "bytes received"),
    byte_rate("network_transmit_bytes_per_second", "bytes sent"),
)

#: The columns of HOST that vmstat can fill.
_VMSTAT = (
    tasks("tasks_runnable", "tasks running or waiting for a core (vmstat r)"),
    tasks("tasks_blocked", "tasks blocked on I/O (vmstat b)"),
    bytes_gauge("swap_used_bytes", "swap in use (vmstat swpd)"),
    bytes_gauge("memory_free_bytes", "unused memory (vmstat free, MemFree)"),
    bytes_gauge("memory_buffers_bytes", "buffers of block devices (vmstat buff, Buffers)"),
    bytes_gauge("memory_cache_bytes", "page cache and reclaimable slab (vmstat cache, Cached + SReclaimable)"),
    byte_rate("swap_in_bytes_per_second", "read back from swap (vmstat si)"),
    byte_rate("swap_out_bytes_per_second", "written to swap (vmstat so)"),
    byte_rate("block_in_bytes_per_second", "read from block devices (vmstat bi)"),
    byte_rate("block_out_bytes_per_second", "written to block devices (vmstat bo)"),
    event_rate("interrupts_per_second", "interrupts, the clock included (vmstat in)"),
    event_rate("context_switches_per_second", "context switches (vmstat cs)"),
    share(
        "cpu_user_ratio",
        "CPU time in user mode, nice included, of all cores; guests excluded, except from a vmstat without a gu "
        "column (procps 3), which cannot separate them",
    ),
    share("cpu_system_ratio", "CPU time in the kernel, interrupts included, of all cores"),
    share("cpu_idle_ratio", "CPU time idle without outstanding I/O, of all cores"),
    share("cpu_iowait_ratio", "CPU time idle with outstanding I/O, of all cores"),
    share("cpu_steal_ratio", "CPU time given to others by the hypervisor, of all cores"),
    share("cpu_guest_ratio", "CPU time that ran guests, niced guests included, of all cores"),
)

HOST = ResourceSet(
    HOST_SET,
    (
        *_VMSTAT,
        bytes_gauge("memory_total_bytes", "memory of the host (MemTotal)"),
        bytes_gauge("memory_available_bytes", "memory available without swapping (MemAvailable)"),
        count("cpu_count", "CPUs online"),
        share("cpu_worst_core_ratio", "CPU time of the busiest core, without idle and iowait"),
        share("cpu_core_spread_ratio", "CPU time of the busiest core minus that of the idlest"),
        *_NETWORK,
        Metric(
            "link_speed_bytes_per_second",
            "bytes/s",
            GAUGE,
            0.0,
            MAX_BYTES_PER_SECOND,
            "total speed of the links that are up, if known for all",
        ),
        *(metric for name in HOST_FIGURES for metric in import_module(name).METRICS),
    ),
)

_PROCESS_METRICS = (
    cores("cpu_user_ratio", "CPU time in user mode, guests excluded (pidstat %usr)"),
    cores("cpu_system_ratio", "CPU time in the kernel (pidstat %system)"),
    cores("cpu_guest_ratio", "CPU time that ran a guest (pidstat %guest)"),
    cores("cpu_wait_ratio", "time for which its first thread was runnable and waited for a core (pidstat %wait)"),
    cores("cpu_ratio", "total CPU time: user, guest and kernel (pidstat %CPU)"),
    event_rate("minor_faults_per_second", "page faults without I/O (pidstat minflt/s)"),
    event_rate("major_faults_per_second", "page faults with I/O (pidstat majflt/s)"),
    bytes_gauge("memory_virtual_bytes", "address space in use (pidstat VSZ)"),
    bytes_gauge("memory_resident_bytes", "memory in use (pidstat RSS); of a VM, its huge pages included"),
    Metric(
        "memory_ratio", "ratio", GAUGE, 0.0, 1.0, "resident memory as a fraction of the host's memory (pidstat %MEM)"
    ),
    byte_rate("disk_read_bytes_per_second", "read from storage (pidstat kB_rd/s)"),
    byte_rate("disk_write_bytes_per_second", "written, or to be written, to storage (pidstat kB_wr/s)"),
    byte_rate("disk_write_cancelled_bytes_per_second", "writes that a truncation saved (pidstat kB_ccwr/s)"),
    Metric(
        "io_delay_ticks",
        "ticks",
        COUNTER,
        0.0,
        MAX_EVENTS_PER_SECOND,
        "clock ticks (1/100 s) of waiting for block I/O in the interval, not per second (pidstat iodelay)",
    ),
    event_rate("voluntary_switches_per_second", "voluntary context switches of its first thread (pidstat cswch/s)"),
    event_rate(
        "involuntary_switches_per_second", "involuntary context switches of its first thread (pidstat nvcswch/s)"
    ),
)

PROCESSES = ResourceSet("processes", _PROCESS_METRICS)

#: A VM's wait for a core is that of its vCPUs (``vcpu_delay_ratio``), not of the first thread of its qemu.
VMS = ResourceSet(
    "vms",
    (
        *(metric for metric in _PROCESS_METRICS if metric.name != "cpu_wait_ratio"),
        count("vcpu_count", "current number of vCPUs of the guest"),
        bytes_gauge("memory_assigned_bytes", "memory assigned to the guest, memory devices included"),
        *_NETWORK,
        cores("vcpu_run_ratio", "run time of its vCPUs (libvirt vcpu.N.time)"),
        cores(
            "vcpu_delay_ratio", "time for which its vCPUs were ready but did not run (CPU ready; libvirt vcpu.N.delay)"
        ),
        cores("vcpu_throttled_ratio", "time for which it was throttled by CPU limits of its cgroups (cpu.stat)"),
        cores("vcpu_suffering_ratio", "delay less throttled time, at least 0: time taken by others on the host"),
        Metric(
            vm_state.METRIC,
            "state",
            GAUGE,
            1.0,
            float(len(vm_state.STATES)),
            "1 running, 2 stopped (SIGSTOP), 3 incoming",
        ),
    ),
)

_SHARES = (
    share("cpu_user_ratio", "CPU time in user mode, nice included, guests excluded"),
    share("cpu_system_ratio", "CPU time in the kernel, interrupts included"),
    share("cpu_idle_ratio", "CPU time idle without outstanding I/O"),
    share("cpu_iowait_ratio", "CPU time idle with outstanding I/O"),
    share("cpu_steal_ratio", "CPU time given to others by the hypervisor"),
    share("cpu_guest_ratio", "CPU time that ran guests, niced guests included"),
)

#: Parts of the host, each read only if it is configured.
PARTS = (
    ResourceSet("cores", _SHARES),
    ResourceSet(
        "numa_nodes",
        (
            *_SHARES,
            bytes_gauge("memory_total_bytes", "memory of the node (MemTotal)"),
            bytes_gauge("memory_free_bytes", "unused memory of the node (MemFree)"),
            bytes_gauge("memory_cache_bytes", "page cache and reclaimable slab (FilePages + SReclaimable)"),
            bytes_gauge("hugepages_total_bytes", "memory of the node in huge pages of all sizes (nr_hugepages)"),
            bytes_gauge("hugepages_free_bytes", "free huge pages of all sizes, reserved ones included"),
        ),
    ),
    ResourceSet(
        "interfaces",
        (
            *_NETWORK,
            event_rate("network_receive_errors_per_second", "packets received with an error"),
            event_rate("network_transmit_errors_per_second", "packets that could not be sent"),
            event_rate("network_receive_drops_per_second", "packets received and dropped"),
            event_rate("network_transmit_drops_per_second", "packets dropped on their way out"),
            Metric("link_speed_bytes_per_second", "bytes/s", GAUGE, 0.0, MAX_BYTES_PER_SECOND, "speed of the link"),
        ),
    ),
    ResourceSet(
        "filesystems",
        (
            bytes_gauge("space_total_bytes", "size of the file system (statvfs f_blocks)"),
            bytes_gauge("space_available_bytes", "free space for users other than root (statvfs f_bavail)"),
            files("inodes_total", "files that the file system can hold (statvfs f_files)"),
            files("inodes_available", "files that can still be created (statvfs f_favail)"),
        ),
    ),
)

STORAGE = ResourceSet(
    "storage",
    (
        Metric(
            "throughput_bytes_per_second",
            "bytes/s",
            GAUGE,
            0.0,
            MAX_BYTES_PER_SECOND,
            "written or read in sequence with records of one size, past the page cache (fio bw)",
        ),
        seconds("latency_seconds", "of one such write or read, mean (fio lat)"),
        seconds("latency_p99_seconds", "of one such write or read, 99th percentile (fio clat)"),
        Metric(
            "jitter_ratio",
            "ratio",
            GAUGE,
            0.0,
            1000.0,
            "relative standard deviation of throughput over intervals of at most half a second (fio bw_dev / bw_mean)",
        ),
    ),
)

RESOURCE_SETS: dict[str, ResourceSet] = {each.name: each for each in (HOST, PROCESSES, VMS, *PARTS, STORAGE)}

#: Columns that vmstat can fill (of HOST) and pidstat can fill (of PROCESSES and VMS).
VMSTAT_METRICS: tuple[str, ...] = tuple(metric.name for metric in _VMSTAT)
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
        *(metric.name for metric in HOST.metrics if metric.name.startswith("hugepages_")),
    }
)
