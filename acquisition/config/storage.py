"""Settings of table [probe.storage]: the storage benchmark of a host."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from acquisition.config.schema import Meta, Table

RECORD_SIZES = tuple(65536 << power for power in range(9))  #: 64 KiB to 16 MiB


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
