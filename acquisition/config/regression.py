"""The table [regression]: whose level the archive compares with its own past."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from acquisition.config.schema import Meta, Table

_DEFAULT = {"storage.throughput_bytes_per_second": -0.05}


class Regression(Table):
    """Metrics whose level `shardpulse archive run` compares with what was usual before. One that got worse, and stays
    so for three periods at least, is an event and a finding of `shardpulse status`. Patterns may hold * and ?."""

    metrics: Annotated[
        dict[str, Annotated[float, Meta(ge=-1, le=1000)]],
        Meta(
            description="SET.METRIC = the smallest change that counts, as a part of the usual level: -0.05 is 5% less, "
            "0.1 is 10% more; the first pattern that fits counts; empty: none is compared"
        ),
    ] = field(default_factory=lambda: dict(_DEFAULT))
    hosts: Annotated[list[str], Meta(description="names of hosts")] = field(default_factory=lambda: ["*"])
    entities: Annotated[list[str], Meta(description="names of entities, such as write-64k")] = field(
        default_factory=lambda: ["*"]
    )
    period_seconds: Annotated[
        float,
        Meta(
            ge=3600,
            le=604800,
            description="the mean of a period is one value of the comparison; 150 of them are looked at",
        ),
    ] = 86400.0
