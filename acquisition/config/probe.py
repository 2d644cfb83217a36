"""Probe settings: [probe], [probe.*] and [checks] of shardpulse.toml.

Tables of checks and names of sources come from installed packages, through entry points as in
``acquisition.plugins``; without the package of the probe there are no checks, and ``auto`` is the only source.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from acquisition import plugins
from acquisition.config.schema import Meta, Table
from acquisition.model.check_kind import CheckKind, Parameter

AUTO = "auto"
RECORD_SIZES = tuple(65536 << power for power in range(9))  #: 64 KiB to 16 MiB
Enabled = Annotated[bool, Meta(description="false disables it")]


def _field(parameter: Parameter) -> tuple[str, Any, Any]:
    name, default, low, high, meaning = parameter
    if isinstance(default, int | float):
        return name, Annotated[type(default), Meta(ge=low, le=high, description=meaning)], default
    limits = Annotated[dict[str, tuple[float, float]], Meta(description=meaning)]
    return name, limits, field(default_factory=dict)


def _table(name: str, kind: CheckKind) -> type[Table]:
    fields = [("enabled", Enabled, True), *map(_field, kind.parameters)]
    return _made(f"{name.title()}Check", kind.help, fields)


def _check_tables() -> type[Table]:
    tables = {name: _table(name, kind) for name, kind in plugins.registered(plugins.CHECKS).items()}
    fields = [(name, table, field(default_factory=table)) for name, table in tables.items()]
    meaning = "Checks of samples, in order of execution; the first that fails sets the code."
    return _made("Checks", meaning, fields)


def _made(name: str, meaning: str, fields: list[tuple[str, Any, Any]]) -> type[Table]:
    annotations = {key: hint for key, hint, _ in fields}
    defaults = {key: default for key, _, default in fields}
    space = {"__doc__": meaning, "__module__": __name__, "__annotations__": annotations, **defaults}
    made = type(name, (Table,), space)
    assert issubclass(made, Table)
    return made


def _source_names(resource_set: str) -> Any:
    return Literal[(AUTO, *(name for owner, name in plugins.registered(plugins.SOURCES) if owner == resource_set))]


if TYPE_CHECKING:
    Checks = Table
    HostSource = str
    ProcessesSource = str
    VmsSource = str
else:
    Checks = _check_tables()
    HostSource, ProcessesSource, VmsSource = map(_source_names, ("host", "processes", "vms"))


class ProbeSigning(Table):
    """Signatures of this host's frames; they prevent other hosts from sending frames in its name."""

    key_file: Annotated[
        str,
        Meta(
            description="file with this host's key, made by `shardpulse keys host`; mode 0600, or "
            "$CREDENTIALS_DIRECTORY/NAME under systemd; empty: frames are not signed"
        ),
    ] = ""


#: Period between two ticks in seconds.
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


class StorageModule(Table):
    """Monitor module of storage: fio periodically writes and reads a test file, bypassing the page cache. A run
    loads the device for minutes; disabled by default."""

    enabled: Annotated[bool, Meta(description="true enables it")] = False
    path: Annotated[str, Meta(description="directory on the storage to measure, writable by the probe's user")] = ""
    size_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            le=1 << 44,
            description="size of the test file; should exceed the caches of disks and controllers",
        ),
    ] = 8 << 30
    record_sizes: Annotated[
        list[Annotated[int, Meta(ge=512, le=1 << 30)]],
        Meta(min_length=1, description="record sizes in bytes; each is measured for writes and for reads"),
    ] = field(default_factory=lambda: list(RECORD_SIZES))
    seconds_per_point: Annotated[
        float,
        Meta(gt=0, le=3600, description="maximum time per record size; a measurement also ends at the end of the file"),
    ] = 30.0
    interval_seconds: Annotated[float, Meta(ge=1, le=86400, description="seconds between the starts of two runs")] = (
        86400.0
    )
    at: Annotated[
        str,
        Meta(
            pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$",
            description='time of day (UTC, "HH:MM") at which a run starts; empty: derived from the host '
            "name, so that hosts do not load shared storage at once",
        ),
    ] = ""
    bytes_per_second: Annotated[
        int,
        Meta(ge=0, description="maximum rate of a run; a faster device then shows this rate; 0: no limit"),
    ] = 0
    idle: Annotated[
        bool, Meta(description="run in I/O class idle, if the device's scheduler supports it (ionice(1))")
    ] = True
    metrics: Annotated[list[str], Meta(description="metrics to send; empty: all")] = field(default_factory=list)


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
