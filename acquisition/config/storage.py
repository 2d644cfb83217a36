"""The table [probe.storage]: the benchmark of this host's storage."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from acquisition.config.schema import Meta, Table

RECORD_SIZES = tuple(65536 << power for power in range(9))  #: 64 KiB to 16 MiB


class StorageModule(Table):
    """The monitor module of storage: now and then fio writes and reads a file of its own, past the page cache. It
    loads the device for minutes; off unless enabled."""

    enabled: Annotated[bool, Meta(description="true switches it on")] = False
    path: Annotated[
        str, Meta(description="directory on the storage to measure, which the user of the probe may write to")
    ] = ""
    size_bytes: Annotated[
        int,
        Meta(ge=1 << 20, le=1 << 44, description="size of the file; larger than the caches of disks and controllers"),
    ] = 8 << 30
    record_sizes: Annotated[
        list[Annotated[int, Meta(ge=512, le=1 << 30)]],
        Meta(min_length=1, description="bytes of one write or read; each size is measured with writes and with reads"),
    ] = field(default_factory=lambda: list(RECORD_SIZES))
    seconds_per_point: Annotated[
        float, Meta(gt=0, le=3600, description="a size is measured for so long, or until the whole file is through")
    ] = 30.0
    interval_seconds: Annotated[float, Meta(ge=1, le=86400, description="seconds between the begins of two runs")] = (
        86400.0
    )
    at: Annotated[
        str,
        Meta(
            pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$",
            description='time of day in UTC, "HH:MM", at which a run begins; empty: one that is hashed from the name '
            "of the host, so that hosts do not load shared storage together",
        ),
    ] = ""
    bytes_per_second: Annotated[
        int,
        Meta(ge=0, description="most that a run writes or reads; a faster device shows this figure then; 0: no limit"),
    ] = 0
    idle: Annotated[
        bool, Meta(description="run in the I/O class idle, where the scheduler of the device has one (ionice(1))")
    ] = True
    metrics: Annotated[list[str], Meta(description="metrics to send; empty: all")] = field(default_factory=list)
