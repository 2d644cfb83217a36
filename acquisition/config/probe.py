"""Probe settings: the tables [probe] and [probe.*] of shardpulse.toml."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from acquisition.config.registered import AUTO, Enabled, HostSource, ProcessesSource, VmsSource
from acquisition.config.schema import Meta, Table
from acquisition.config.storage import StorageModule


class ProbeSigning(Table):
    """Signatures of this host's frames; they prevent other hosts from sending frames in its name."""

    key_file: Annotated[
        str,
        Meta(
            description="file with this host's key, made by `shardpulse keys host`; mode 0600, or "
            "$CREDENTIALS_DIRECTORY/NAME under systemd; empty: frames are not signed"
        ),
    ] = ""


#: A period in seconds between two ticks.
Interval = Annotated[
    float,
    Meta(
        ge=0, le=86400, description="seconds between two ticks; 0: the interval of [probe], otherwise a multiple of it"
    ),
]
Metrics = Annotated[list[str], Meta(description="metrics to send; empty: all")]
_SOURCE = "auto: procfs, which costs least and provides all metrics"


class HostModule(Table):
    """Monitor module of the host itself."""

    enabled: Enabled = True
    source: Annotated[HostSource, Meta(description=_SOURCE)] = AUTO
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)


class ProcessesModule(Table):
    """Monitor module of processes. It watches all processes, or those matched by any selector."""

    enabled: Enabled = True
    source: Annotated[ProcessesSource, Meta(description=_SOURCE)] = AUTO
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)
    all: Annotated[bool, Meta(description="watch every process; ignored if a selector below is set")] = True
    commands: Annotated[list[str], Meta(description="regular expressions searched for in the command line")] = field(
        default_factory=list
    )
    users: Annotated[list[str], Meta(description="user names or numbers")] = field(default_factory=list)
    cgroups: Annotated[list[str], Meta(description='patterns of cgroup paths, such as "/machine.slice/*"')] = field(
        default_factory=list
    )
    pids: Annotated[list[int], Meta(description="process ids")] = field(default_factory=list)
    daemons: Annotated[
        bool,
        Meta(
            description="always watch libvirtd, virtqemud, systemd-journald, shard servers and shardpulse "
            "itself, whatever the selectors"
        ),
    ] = True
    limit: Annotated[
        int, Meta(ge=1, le=1_000_000, description="maximum number of processes watched; the others are counted")
    ] = 1000


class VmsModule(Table):
    """Monitor module of virtual machines (qemu processes)."""

    enabled: Enabled = True
    source: Annotated[VmsSource, Meta(description=_SOURCE)] = AUTO
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)
    scope: Annotated[
        str,
        Meta(
            description="cluster name that makes VM names unique (Proxmox VE without uuid, KubeVirt); the "
            "same on all hosts of a cluster, different in each cluster"
        ),
    ] = ""


class CoresModule(Table):
    """Monitor module of single cores. The host's metrics include the busiest core without it."""

    enabled: Enabled = False
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)


class NumaNodesModule(Table):
    """Monitor module of NUMA nodes: CPU, memory and huge pages of each."""

    enabled: Enabled = False
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)


class InterfacesModule(Table):
    """Monitor module of network interfaces."""

    enabled: Enabled = False
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)
    names: Annotated[
        list[str], Meta(description='name patterns, such as "eth*"; empty: interfaces backed by a device')
    ] = field(default_factory=list)


class FilesystemsModule(Table):
    """Monitor module of file systems, in a separate process, since a file server may hang."""

    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)
    paths: Annotated[
        list[Annotated[str, Meta(pattern="^/")]],
        Meta(description="one path on each file system to watch, such as the directory of VM images; empty: none"),
    ] = field(default_factory=list)

    @property
    def enabled(self) -> bool:
        """Whether there is anything to watch."""
        return bool(self.paths)


class Probe(Table):
    """Probe: one process per host that runs all monitor modules."""

    interval_seconds: Annotated[float, Meta(ge=0.01, le=86400, description="seconds between two ticks")] = 1.0
    ring_path: Annotated[
        str,
        Meta(
            description="file of recent frames, on tmpfs; empty: a file in the unit's $RUNTIME_DIRECTORY, "
            "else one per user and host in /dev/shm"
        ),
    ] = ""
    ring_bytes: Annotated[int, Meta(ge=65536, le=1 << 34, description="size of the file of recent frames")] = 16777216
    ring_seconds: Annotated[
        float, Meta(gt=0, description="maximum age of unconfirmed frames; older ones are dropped and counted as lost")
    ] = 600.0
    discovery_interval_seconds: Annotated[
        float, Meta(gt=0, le=86400, description="seconds between scans for new processes; VMs are found sooner")
    ] = 5.0
    position_interval_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="seconds between reads of the filter's progress")
    ] = 2.0
    shed_after_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=86400,
            description="backlog age in seconds at which an overloaded probe starts dropping frames; dropped "
            "samples are counted as lost",
        ),
    ] = 5.0
    host: HostModule = field(default_factory=HostModule)
    processes: ProcessesModule = field(default_factory=ProcessesModule)
    vms: VmsModule = field(default_factory=VmsModule)
    cores: CoresModule = field(default_factory=CoresModule)
    numa_nodes: NumaNodesModule = field(default_factory=NumaNodesModule)
    interfaces: InterfacesModule = field(default_factory=InterfacesModule)
    filesystems: FilesystemsModule = field(default_factory=FilesystemsModule)
    storage: StorageModule = field(default_factory=StorageModule)
    signing: ProbeSigning = field(default_factory=ProbeSigning)
