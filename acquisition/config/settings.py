"""Settings with defaults, limits and meanings: the schema of shardpulse.toml.

One frozen Struct per TOML table. Limits and descriptions are in the
annotations, so that validation and the reference printed by ``shardpulse config``
come from one place. No secret has a default; everything binds to loopback.
"""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Annotated

from acquisition.config.archive import Archive
from acquisition.config.decisions import Decisions
from acquisition.config.inputs import Inputs
from acquisition.config.probe import Checks, Probe
from acquisition.config.regression import Regression
from acquisition.config.schema import Meta, Table
from acquisition.config.serve import Serve
from acquisition.wire.keys import DEFAULT_PARTITIONS, SLOTS
from acquisition.wire.rejected import Limits


class FilterSigning(Table):
    """Signature checks of the filter and the archive."""

    key_file: Annotated[
        str,
        Meta(
            description="file with the master secrets, made by `shardpulse keys master`; mode 0600, or "
            "$CREDENTIALS_DIRECTORY/NAME under systemd; empty: signatures are not checked"
        ),
    ] = ""
    required: Annotated[
        bool, Meta(description="false: accept unsigned frames, while not all probes have a key yet")
    ] = True


_LIMITS = Limits()


class FilterLimits(Table):
    """Size limits per host, for the filter and the archive. A frame that exceeds one is rejected, and
    `shardpulse status` names the host."""

    resource_sets: Annotated[int, Meta(ge=1, description="maximum number of resource sets")] = _LIMITS.resource_sets
    entities: Annotated[int, Meta(ge=1, description="maximum number of entities in all resource sets")] = (
        _LIMITS.entities
    )
    metrics: Annotated[int, Meta(ge=1, description="maximum number of metrics per resource set")] = _LIMITS.metrics
    frame_bytes: Annotated[int, Meta(ge=65536, description="maximum size of a frame in bytes")] = _LIMITS.frame_bytes
    name_bytes: Annotated[int, Meta(ge=256, description="maximum size of a name or label in bytes")] = (
        _LIMITS.name_bytes
    )

    @property
    def sizes(self) -> Limits:
        """The same limits, as applied by filters and archivers."""
        return Limits(**asdict(self))


class Host(Table):
    """Identity of this machine."""

    name: Annotated[
        str, Meta(max_length=253, description="name of this host in all output; empty: the system's hostname")
    ] = ""


class Shards(Table):
    """Acquisition databases: their addresses, or how `shardpulse shards up` starts them locally."""

    addresses: Annotated[
        list[str],
        Meta(description='addresses of some shards, each "HOST:PORT"; empty: the local shards started by `shards up`'),
    ] = field(default_factory=list)
    username: Annotated[str, Meta(description="Redis ACL user")] = "default"
    password_file: Annotated[
        str,
        Meta(
            description="file with the user's password in its first line; mode 0600, or "
            "$CREDENTIALS_DIRECTORY/NAME under systemd; empty: no password"
        ),
    ] = ""
    owner: Annotated[
        str,
        Meta(description="user whose local processes may receive the password; empty: the current user and root"),
    ] = ""
    tls_ca: Annotated[
        str,
        Meta(
            description="PEM file with the certificate authority of the shards; enables TLS 1.3 and verifies "
            "their names; empty: no TLS"
        ),
    ] = ""
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="timeout for connecting, sending and each reply")
    ] = 2.0
    directory: Annotated[
        str,
        Meta(description="state directory of local shards; empty: $XDG_RUNTIME_DIR/shardpulse or /tmp/shardpulse-UID"),
    ] = ""
    count: Annotated[int, Meta(ge=0, le=1024, description="local shards to start; 0: one per core")] = 0
    base_port: Annotated[
        int,
        Meta(
            ge=0,
            le=55534,
            description="first port of the local shards; following ports are used for the others and must be "
            "free; 0: free ports from 7600 on",
        ),
    ] = 0
    maxmemory_bytes: Annotated[
        int,
        Meta(ge=0, description="memory limit of each local shard; 0: an equal share of half of the machine's memory"),
    ] = 0
    replicas: Annotated[
        int,
        Meta(
            ge=0, le=8, description="number of replicas of each local shard; a replica takes over when the shard dies"
        ),
    ] = 0
    min_replicas_to_write: Annotated[
        int,
        Meta(
            ge=0,
            le=8,
            description="minimum number of connected replicas for a local shard to accept writes; limits "
            "losses when it is isolated; 0: no minimum",
        ),
    ] = 0
    partitions: Annotated[
        int,
        Meta(
            ge=1,
            le=SLOTS,
            description="number of partitions of a new cluster; a partition is the unit of ordering and of migration",
        ),
    ] = DEFAULT_PARTITIONS


class Filter(Table):
    """Filter: checks and smooths the probes' samples."""

    tau_seconds: Annotated[
        float, Meta(gt=0, le=86400, description="time constant of the moving average: alpha = 1 - exp(-dt / tau)")
    ] = 5.0
    tau: Annotated[
        dict[str, Annotated[float, Meta(gt=0, le=86400)]],
        Meta(description="time constants of single metrics, metric = seconds"),
    ] = field(default_factory=dict)
    kernels: Annotated[
        list[str],
        Meta(min_length=1, description="kernels computed for each sample; installed packages may add kernels"),
    ] = field(default_factory=lambda: ["last", "mean", "variance", "trend"])
    keep_ticks: Annotated[
        int, Meta(ge=1, le=1000, description="number of ticks of smoothed state kept for readers")
    ] = 3
    linger_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=10,
            description="maximum time that a busy worker waits to batch frames; higher "
            "values save CPU and delay readers",
        ),
    ] = 0.1
    retention_seconds: Annotated[float, Meta(ge=0, description="minimum retention of raw frames")] = 30.0
    retention_bytes: Annotated[
        int,
        Meta(
            ge=65536, description="maximum bytes of raw frames per partition; takes precedence over retention_seconds"
        ),
    ] = 16777216
    reader_retention_seconds: Annotated[
        float,
        Meta(
            ge=0,
            description="maximum retention of raw frames that an active reader, such as the archive, has not read yet",
        ),
    ] = 900.0
    reader_retention_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="maximum bytes of such frames per partition; takes precedence over reader_retention_seconds",
        ),
    ] = 33554432
    expire_seconds: Annotated[
        float,
        Meta(
            gt=0,
            description="hosts without samples for this time expire; `shardpulse hosts` lists them for 7 more days",
        ),
    ] = 600.0
    lease_seconds: Annotated[
        float,
        Meta(ge=0.2, le=60, description="time after which another worker takes over the partitions of a dead worker"),
    ] = 2.0
    inputs: Inputs = field(default_factory=Inputs)
    limits: FilterLimits = field(default_factory=FilterLimits)
    signing: FilterSigning = field(default_factory=FilterSigning)


class Snapshot(Table):
    """Snapshots of all hosts, as assembled by readers."""

    grace_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="delay after the end of an interval until its tick counts as complete")
    ] = 0.5
    down_after_seconds: Annotated[
        float,
        Meta(gt=0, description="silence after which a host is reported down, unless its neighbours are silent too"),
    ] = 10.0


class Log(Table):
    """Log of probe, filter, serve, archive and the Watcher datasource on stderr."""

    levels: Annotated[
        str,
        Meta(
            description="comma-separated list of LEVEL or CATEGORY=LEVEL, as for --log; levels are error, "
            "warning, notice, info, debug; categories are listed in docs/operations.md"
        ),
    ] = "notice"


class Settings(Table):
    """Contents of shardpulse.toml."""

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
