"""Settings of tables [serve] and [serve.limits]: listening and client limits."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from acquisition.config.schema import Meta, Table


class ServeLimits(Table):
    """Limits of the query service, per client and in total."""

    connections: Annotated[
        int,
        Meta(
            ge=4, le=100_000, description="maximum number of open connections; beyond it the longest idle one is closed"
        ),
    ] = 1000
    streams: Annotated[int, Meta(ge=0, le=10_000, description="maximum number of concurrent /v1/stream clients")] = 100
    stream_queue: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="maximum number of queued events of a slow /v1/stream client before it is disconnected",
        ),
    ] = 16
    query_bytes: Annotated[int, Meta(ge=256, le=60000, description="maximum length of a query string")] = 60000
    head_bytes: Annotated[
        int, Meta(ge=1024, le=1 << 21, description="maximum length of a request line and headers")
    ] = 98304
    writes_per_second: Annotated[
        float,
        Meta(
            gt=0,
            le=1e6,
            description="maximum reports per second of a client address; bursts of up "
            "to ten seconds' worth are accepted",
        ),
    ] = 10.0
    body_bytes: Annotated[int, Meta(ge=1024, le=1 << 24, description="maximum length of a request body")] = 65536
    answer_samples: Annotated[
        int, Meta(ge=1, description="maximum number of samples in an answer; a larger selection is an error")
    ] = 2_000_000
    idle_seconds: Annotated[
        float, Meta(gt=0, le=86400, description="time without a complete request after which a connection is closed")
    ] = 30.0


class Serve(Table):
    """Query service `shardpulse serve`."""

    bind: Annotated[
        str,
        Meta(
            description='"HOST:PORT"; port 0: any free port; addresses other than loopback require token_file and TLS'
        ),
    ] = "127.0.0.1:7680"
    token_file: Annotated[
        str, Meta(description="file (mode 0600) with the clients' bearer token in its first line; empty: no token")
    ] = ""
    write_token_file: Annotated[
        str,
        Meta(
            description="file (mode 0600) with the bearer token for writing in its first line, required on "
            "loopback too and valid for reading; empty: writer.token of the local shards"
        ),
    ] = ""
    tls_certificate: Annotated[str, Meta(description="PEM file of the certificate chain; empty: no TLS")] = ""
    tls_key: Annotated[str, Meta(description="PEM file of the private key (mode 0600)")] = ""
    interval_seconds: Annotated[
        float, Meta(ge=0.05, le=3600, description="seconds between two snapshots; should equal the probes' interval")
    ] = 1.0
    resource_sets: Annotated[
        list[str],
        Meta(
            description='resource sets in a snapshot, by exact name; empty: all; ["host"] is cheap for '
            "10,000 hosts, but leaves no VMs to move"
        ),
    ] = field(default_factory=list)
    stale_seconds: Annotated[
        float,
        Meta(gt=0, description="maximum age of a snapshot; beyond it answers are 503, since the shards cannot be read"),
    ] = 5.0
    limits: ServeLimits = field(default_factory=ServeLimits)
