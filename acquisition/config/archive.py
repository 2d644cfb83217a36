"""Settings of table [archive]: long-term storage and its retention."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from acquisition.config.schema import Meta, Table

Days = Annotated[float, Meta(ge=0.5, le=36500)]


class Archive(Table):
    """SQL database of `shardpulse archive`: rollups, episodes of invalid samples, events, inventory."""

    url: Annotated[
        str,
        Meta(
            description="PATH of an SQLite file, or postgresql://USER@HOST/DATABASE without a password; "
            "empty: $XDG_STATE_HOME/shardpulse/archive.db or ~/.local/state/shardpulse/archive.db"
        ),
    ] = ""
    password_file: Annotated[
        str,
        Meta(description="file (mode 0600) with the password in its first line; empty: libpq's defaults (~/.pgpass)"),
    ] = ""
    cluster: Annotated[
        str, Meta(min_length=1, description="name of these shards; several clusters may share a database")
    ] = "shardpulse"
    minutes_days: Annotated[Days, Meta(description="retention of 1-minute rollups")] = 2.0
    five_minutes_days: Annotated[Days, Meta(description="retention of 5-minute rollups")] = 30.0
    hours_days: Annotated[Days, Meta(description="retention of 1-hour rollups")] = 730.0
    episodes_days: Annotated[Days, Meta(description="retention of episodes of invalid samples")] = 90.0
    events_days: Annotated[Days, Meta(description="retention of events")] = 730.0
    chunk_hours: Annotated[
        Literal[1, 6],
        Meta(description="hours of 1-minute rollups compacted at a time; 6 uses less disk and compacts later"),
    ] = 1
    percentiles: Annotated[
        list[Annotated[str, Meta(pattern=r"^[^.]+\..+$")]],
        Meta(description="metrics with 95th percentiles, as SET.METRIC; SET may be *, METRIC may contain * and ?"),
    ] = field(default_factory=list)
    grace_seconds: Annotated[
        float,
        Meta(
            ge=0, le=3600, description="delay after the end of a minute until it is written; later samples are merged"
        ),
    ] = 5.0
    claim_seconds: Annotated[
        float, Meta(ge=1, le=86400, description="time that raw frames are kept for an archiver that no longer reports")
    ] = 900.0
    lease_seconds: Annotated[
        float,
        Meta(ge=1, le=600, description="time after which another archiver takes over the partitions of a dead one"),
    ] = 10.0
