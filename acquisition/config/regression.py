"""Settings of table [regression]: series compared with their own past."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from acquisition.config.schema import Meta, Table

_DEFAULT = {"storage.throughput_bytes_per_second": -0.05}


class Regression(Table):
    """Metrics whose level `shardpulse archive run` compares with their past. A metric that stays worse for at least
    three periods is recorded as an event and reported by `shardpulse status`. Patterns may contain * and ?."""

    metrics: Annotated[
        dict[str, Annotated[float, Meta(ge=-1, le=1000)]],
        Meta(
            description="SET.METRIC = smallest relative change reported: -0.05 is a drop of 5%, 0.1 a rise "
            "of 10%; the first matching pattern applies; empty: no comparison"
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
            description="length of a period; its mean is one value of the comparison, which covers 150 periods",
        ),
    ] = 86400.0
