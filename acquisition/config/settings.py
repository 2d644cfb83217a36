"""Every setting with its default, limits and meaning: the schema of shardpulse.toml.

One frozen Struct per TOML table. The limits and the descriptions stand in the
annotations, so that validation and the reference that ``shardpulse config`` prints
come from one place. No secret has a default; everything binds to loopback.
"""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Annotated

from acquisition.config.archive import Archive
from acquisition.config.decisions import Decisions
from acquisition.config.inputs import Inputs
from acquisition.config.registered import AUTO, Checks, Enabled, HostSource, ProcessesSource, VmsSource
from acquisition.config.regression import Regression
from acquisition.config.schema import Meta, Table
from acquisition.config.serve import Serve
from acquisition.config.storage import StorageModule
from acquisition.wire.keys import DEFAULT_PARTITIONS, SLOTS
from acquisition.wire.rejected import Limits

# -- The tables [probe.signing] and [filter.signing]: who signs frames, and who verifies them.


class ProbeSigning(Table):
    """Signatures of this host's frames, so that no other host of its partition can make any in its name."""

    key_file: Annotated[
        str,
        Meta(
            description="file (mode 0600, or $CREDENTIALS_DIRECTORY/NAME that systemd lends) with this host's key, of "
            "`shardpulse keys host`; empty: frames are not signed"
        ),
    ] = ""


class FilterSigning(Table):
    """What filters and the archive ask of frames; both read this table."""

    key_file: Annotated[
        str,
        Meta(
            description="file (mode 0600, or $CREDENTIALS_DIRECTORY/NAME that systemd lends) with the masters, of "
            "`shardpulse keys master`; empty: signatures are not looked at"
        ),
    ] = ""
    required: Annotated[
        bool, Meta(description="false: frames without a signature are taken, as long as not all probes have a key")
    ] = True


_LIMITS = Limits()


class FilterLimits(Table):
    """Sizes that one host may reach; a frame beyond them is rejected, and `shardpulse status` names the host. Filters
    and the archive both read this table."""

    resource_sets: Annotated[int, Meta(ge=1, description="resource sets")] = _LIMITS.resource_sets
    entities: Annotated[int, Meta(ge=1, description="entities of all resource sets together")] = _LIMITS.entities
    metrics: Annotated[int, Meta(ge=1, description="metrics of one resource set")] = _LIMITS.metrics
    frame_bytes: Annotated[int, Meta(ge=65536, description="bytes of one frame")] = _LIMITS.frame_bytes
    name_bytes: Annotated[int, Meta(ge=256, description="bytes of one name or label")] = _LIMITS.name_bytes

    @property
    def sizes(self) -> Limits:
        """The same as filters and archivers apply it."""
        return Limits(**asdict(self))


class Host(Table):
    """This machine."""

    name: Annotated[str, Meta(max_length=253, description="name of this host in every table; empty: its hostname")] = ""


class Shards(Table):
    """The acquisition databases: where they are, or how `shardpulse shards up` starts them here."""

    addresses: Annotated[
        list[str],
        Meta(description='any of the shards as "HOST:PORT"; empty: those that `shards up` started on this machine'),
    ] = field(default_factory=list)
    username: Annotated[str, Meta(description="Redis ACL user")] = "default"
    password_file: Annotated[
        str,
        Meta(
            description="file (mode 0600, or $CREDENTIALS_DIRECTORY/NAME that systemd lends) whose first line is the "
            "user's password; empty: none"
        ),
    ] = ""
    owner: Annotated[
        str,
        Meta(
            description="user whose processes on this machine are sent the password, if they are the shards; "
            "empty: this one, and root"
        ),
    ] = ""
    tls_ca: Annotated[
        str,
        Meta(
            description="file (PEM) with the authority of the shards, which then must speak TLS 1.3 and have the names "
            "that they are called by; empty: no TLS"
        ),
    ] = ""
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600, description="limit of connect, send and every reply")] = 2.0
    directory: Annotated[
        str, Meta(description="state of local shards; empty: $XDG_RUNTIME_DIR/shardpulse or /tmp/shardpulse-UID")
    ] = ""
    count: Annotated[int, Meta(ge=0, le=1024, description="local shards to start; 0: one per core")] = 0
    base_port: Annotated[
        int,
        Meta(
            ge=0,
            le=55534,
            description="first port of the local shards, the next ones follow, and all must be free; 0: from 7600 on, "
            "passing over those that are in use",
        ),
    ] = 0
    maxmemory_bytes: Annotated[
        int, Meta(ge=0, description="limit of each local shard; 0: an equal part of half of the machine's memory")
    ] = 0
    replicas: Annotated[
        int, Meta(ge=0, le=8, description="replicas of each local shard, which take over when it dies")
    ] = 0
    min_replicas_to_write: Annotated[
        int,
        Meta(
            ge=0,
            le=8,
            description="a local shard refuses writes with fewer replicas: it loses less when it is cut off; 0: never",
        ),
    ] = 0
    partitions: Annotated[
        int, Meta(ge=1, le=SLOTS, description="partitions of a new cluster: the units of order and of moving")
    ] = DEFAULT_PARTITIONS


#: A period in seconds between two ticks.
Interval = Annotated[
    float, Meta(ge=0, le=86400, description="seconds between two ticks; 0: that of [probe]; else a multiple of it")
]
Metrics = Annotated[list[str], Meta(description="metrics to send; empty: all")]
_SOURCE = "auto: procfs, which is the cheapest and has all metrics"


class HostModule(Table):
    """The monitor module of the machine itself."""

    enabled: Enabled = True
    source: Annotated[HostSource, Meta(description=_SOURCE)] = AUTO
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)


class ProcessesModule(Table):
    """The monitor module of processes, and which of them it watches: all, or those that any selector names."""

    enabled: Enabled = True
    source: Annotated[ProcessesSource, Meta(description=_SOURCE)] = AUTO
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)
    all: Annotated[bool, Meta(description="watch every process; ignored where a selector below is given")] = True
    commands: Annotated[list[str], Meta(description="regular expressions, searched in the command line")] = field(
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
            description="watch libvirtd, virtqemud, systemd-journald, the shards' servers and shardpulse itself as "
            "well, whatever the selectors"
        ),
    ] = True
    limit: Annotated[
        int, Meta(ge=1, le=1_000_000, description="at most so many processes; those left out are counted")
    ] = 1000


class VmsModule(Table):
    """The monitor module of virtual machines (qemu processes)."""

    enabled: Enabled = True
    source: Annotated[VmsSource, Meta(description=_SOURCE)] = AUTO
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)
    scope: Annotated[
        str,
        Meta(
            description="name of the cluster whose own names identify VMs (Proxmox VE without a uuid, KubeVirt); the "
            "same on all of its hosts, another in each cluster"
        ),
    ] = ""


class CoresModule(Table):
    """The monitor module of single cores. The host's own figures have the busiest one without it."""

    enabled: Enabled = False
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)


class NumaNodesModule(Table):
    """The monitor module of NUMA nodes: CPU, memory and huge pages of each."""

    enabled: Enabled = False
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)


class InterfacesModule(Table):
    """The monitor module of network interfaces."""

    enabled: Enabled = False
    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)
    names: Annotated[
        list[str], Meta(description='patterns of names, such as "eth*"; empty: those with a device behind them')
    ] = field(default_factory=list)


class FilesystemsModule(Table):
    """The monitor module of file systems, in a process of its own: a file server may not answer."""

    interval_seconds: Interval = 0.0
    metrics: Metrics = field(default_factory=list)
    paths: Annotated[
        list[Annotated[str, Meta(pattern="^/")]],
        Meta(description="a path on each file system, such as that of the images; empty: none is watched"),
    ] = field(default_factory=list)

    @property
    def enabled(self) -> bool:
        """Whether there is anything to watch."""
        return bool(self.paths)


class Probe(Table):
    """The one process per host that runs all monitor modules."""

    interval_seconds: Annotated[float, Meta(ge=0.01, le=86400, description="seconds between two ticks")] = 1.0
    ring_path: Annotated[
        str,
        Meta(
            description="the outbox: recent frames, on tmpfs; empty: a file in the unit's $RUNTIME_DIRECTORY, else in "
            "/dev/shm per user and host"
        ),
    ] = ""
    ring_bytes: Annotated[int, Meta(ge=65536, le=1 << 34, description="size of the outbox")] = 16777216
    ring_seconds: Annotated[
        float, Meta(gt=0, description="frames older than this are given up and counted as lost")
    ] = 600.0
    discovery_interval_seconds: Annotated[
        float, Meta(gt=0, le=86400, description="how often new processes are looked for; VMs are seen sooner")
    ] = 5.0
    position_interval_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="how often the probe asks what the filter has applied")
    ] = 2.0
    shed_after_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=86400,
            description="age of what waits that is too much when more is made than is applied: then the most "
            "talkative probes thin their frames and count what they leave out as lost",
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


class Filter(Table):
    """The service that smooths."""

    tau_seconds: Annotated[
        float, Meta(gt=0, le=86400, description="time constant of the moving average: alpha = 1 - exp(-dt / tau)")
    ] = 5.0
    tau: Annotated[
        dict[str, Annotated[float, Meta(gt=0, le=86400)]], Meta(description="metric = its own time constant")
    ] = field(default_factory=dict)
    kernels: Annotated[
        list[str], Meta(min_length=1, description="what is kept of each sample; packages may add more")
    ] = field(default_factory=lambda: ["last", "mean", "variance", "trend"])
    keep_ticks: Annotated[int, Meta(ge=1, le=1000, description="ticks of smoothed state that stay readable")] = 3
    linger_seconds: Annotated[
        float, Meta(ge=0, le=10, description="a busy worker gathers frames up to so long: freshness against CPU")
    ] = 0.1
    retention_seconds: Annotated[float, Meta(ge=0, description="raw frames are kept so long at least")] = 30.0
    retention_bytes: Annotated[
        int, Meta(ge=65536, description="raw frames of a partition at most; wins over the seconds")
    ] = 16777216
    reader_retention_seconds: Annotated[
        float, Meta(ge=0, description="what a living reader (the archive) has not read yet is kept so long")
    ] = 900.0
    reader_retention_bytes: Annotated[
        int, Meta(ge=0, description="the same of a partition at most; wins over the seconds")
    ] = 33554432
    expire_seconds: Annotated[
        float, Meta(gt=0, description="hosts silent for so long expire; `shardpulse hosts` still lists them for 7 days")
    ] = 600.0
    lease_seconds: Annotated[
        float, Meta(ge=0.2, le=60, description="another worker takes a dead worker's partitions over after so long")
    ] = 2.0
    inputs: Inputs = field(default_factory=Inputs)
    limits: FilterLimits = field(default_factory=FilterLimits)
    signing: FilterSigning = field(default_factory=FilterSigning)


class Snapshot(Table):
    """How readers put hosts together."""

    grace_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="a tick is complete so long after its interval has ended")
    ] = 0.5
    down_after_seconds: Annotated[
        float, Meta(gt=0, description="a host so long silent is down if its neighbours are not")
    ] = 10.0


class Log(Table):
    """What probe, filter, serve, archive and the datasource of Watcher say on stderr."""

    levels: Annotated[
        str,
        Meta(
            description="LEVEL or CATEGORY=LEVEL, several with commas, as --log takes them; categories are those of "
            "docs/operations.md, levels error, warning, notice, info, debug"
        ),
    ] = "notice"


class Settings(Table):
    """All of shardpulse.toml."""

    host: Host = field(default_factory=Host)
    shards: Shards = field(default_factory=Shards)
    probe: Probe = field(default_factory=Probe)
    checks: Checks = field(default_factory=Checks)
    filter: Filter = field(default_factory=Filter)
    snapshot: Snapshot = field(default_factory=Snapshot)
    serve: Serve = field(default_factory=Serve)
    decisions: Decisions = field(default_factory=Decisions)
    archive: Archive = field(default_factory=Archive)
    regression: Regression = field(default_factory=Regression)
    log: Log = field(default_factory=Log)
