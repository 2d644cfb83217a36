"""The table [archive]: where samples outlive the shards, and for how long."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from acquisition.config.schema import Meta, Table

Days = Annotated[float, Meta(ge=0.5, le=36500)]


class Archive(Table):
    """The SQL database of `shardpulse archive`: rollups, episodes of invalid samples, events, inventory."""

    url: Annotated[
        str,
        Meta(
            description="PATH of an SQLite file, or postgresql://USER@HOST/DATABASE without a password; "
            "empty: $XDG_STATE_HOME/shardpulse/archive.db or ~/.local/state/shardpulse/archive.db"
        ),
    ] = ""
    password_file: Annotated[
        str, Meta(description="file (mode 0600) whose first line is the password; empty: libpq's own ways (~/.pgpass)")
    ] = ""
    cluster: Annotated[
        str, Meta(min_length=1, description="name of these shards; several clusters may share a database")
    ] = "shardpulse"
    minutes_days: Annotated[Days, Meta(description="rollups of 1 minute are kept so long")] = 2.0
    five_minutes_days: Annotated[Days, Meta(description="rollups of 5 minutes are kept so long")] = 30.0
    hours_days: Annotated[Days, Meta(description="rollups of 1 hour are kept so long")] = 730.0
    episodes_days: Annotated[Days, Meta(description="episodes of invalid samples are kept so long")] = 90.0
    events_days: Annotated[Days, Meta(description="events are kept so long")] = 730.0
    chunk_hours: Annotated[
        Literal[1, 6],
        Meta(description="rollups of 1 minute are compacted so many hours at a time; 6 need less disk, and come later"),
    ] = 1
    percentiles: Annotated[
        list[Annotated[str, Meta(pattern=r"^[^.]+\..+$")]],
        Meta(description="metrics that get 95th percentiles, SET.METRIC; SET may be *, METRIC may hold * and ?"),
    ] = field(default_factory=list)
    grace_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="a minute is closed so long after its end; what comes later is merged")
    ] = 5.0
    claim_seconds: Annotated[
        float, Meta(ge=1, le=86400, description="how long trims wait for an archiver that no longer reports")
    ] = 900.0
    lease_seconds: Annotated[
        float, Meta(ge=1, le=600, description="another archiver takes a dead one's partitions over after so long")
    ] = 10.0
