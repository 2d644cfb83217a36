"""The tables [serve] and [serve.limits]: where the query service listens, and what its clients may take."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from acquisition.config.schema import Meta, Table


class ServeLimits(Table):
    """What one client, and all of them together, may take of the query service."""

    connections: Annotated[
        int, Meta(ge=4, le=100_000, description="open connections; beyond, the one that idles longest is closed")
    ] = 1000
    streams: Annotated[int, Meta(ge=0, le=10_000, description="clients of /v1/stream at a time")] = 100
    stream_queue: Annotated[
        int, Meta(ge=1, le=10_000, description="events that wait for a slow reader of /v1/stream before it is cut off")
    ] = 16
    query_bytes: Annotated[int, Meta(ge=256, le=60000, description="length of a query string")] = 60000
    head_bytes: Annotated[int, Meta(ge=1024, le=1 << 21, description="length of a request line with headers")] = 98304
    writes_per_second: Annotated[
        float, Meta(gt=0, le=1e6, description="reports per second of a client address; ten seconds' worth at once")
    ] = 10.0
    body_bytes: Annotated[int, Meta(ge=1024, le=1 << 24, description="length of a request body")] = 65536
    answer_samples: Annotated[
        int, Meta(ge=1, description="samples in one answer; a selection of more is refused, and says so")
    ] = 2_000_000
    idle_seconds: Annotated[
        float, Meta(gt=0, le=86400, description="a connection without a whole request for so long is closed")
    ] = 30.0


class Serve(Table):
    """The query service `shardpulse serve`."""

    bind: Annotated[
        str, Meta(description='"HOST:PORT"; port 0: a free one; other than loopback demands token_file and TLS')
    ] = "127.0.0.1:7680"
    token_file: Annotated[
        str, Meta(description="file (mode 0600) whose first line clients send as bearer token; empty: none")
    ] = ""
    write_token_file: Annotated[
        str,
        Meta(
            description="file (mode 0600) whose first line clients send as bearer token to write, also on loopback; it "
            "may read as well; empty: writer.token of the shards of this machine"
        ),
    ] = ""
    tls_certificate: Annotated[str, Meta(description="PEM file of the certificate chain; empty: no TLS")] = ""
    tls_key: Annotated[str, Meta(description="PEM file of the private key (mode 0600)")] = ""
    interval_seconds: Annotated[
        float, Meta(ge=0.05, le=3600, description="seconds between two pictures: the probes' interval")
    ] = 1.0
    resource_sets: Annotated[
        list[str],
        Meta(
            description='what a picture holds, by exact name; empty: everything; ["host"] makes that of 10,000 hosts '
            "cheap, but then there are no VMs to move"
        ),
    ] = field(default_factory=list)
    stale_seconds: Annotated[
        float, Meta(gt=0, description="a picture older than this is answered with 503: the shards cannot be read")
    ] = 5.0
    limits: ServeLimits = field(default_factory=ServeLimits)
