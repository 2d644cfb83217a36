"""Service load: requests per second and latency while the pipeline runs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from experiments.emulation.host_figures import host_figures
from experiments.harness import outcome, pipeline, usage
from experiments.harness.options import Options
from experiments.harness.service import Service, serving
from experiments.processes import needs
from experiments.processes.control import Child, python
from experiments.processes.program import program
from experiments.serve_load import wrk
from probes.loop.account import pss_bytes

_LEAST_RATE = 2000.0
_MOST_P99 = 10.0  #: milliseconds
_READY_SECONDS = 30.0
_WARM_UP = 40.0  #: the windows of the rules must be full

_DESCRIPTION = """\
Load the query service with wrk while the whole pipeline runs on the same machine: emulated hosts with
their VMs at 1 Hz, real shards, the real filter, `shardpulse serve` pinned to one core. One host in
twenty is overloaded all the time. The targets of /v1/hot are 2,000 requests/s and 10 ms at the
99th percentile. Beside it stands a bare server that sends the same bytes from memory."""

_EXAMPLES = """\
examples:
  python -m experiments.serve_load --hosts 100 --seconds 10
  python -m experiments.serve_load --hosts 100 --seconds 10 --json --save serve-load"""

#: Requests: name, path, headers.
REQUESTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("hot", "/v1/hot", ()),
    ("hot_gzip", "/v1/hot", ("Accept-Encoding: gzip",)),
    ("moves", "/v1/moves", ()),
    ("hosts_cpu", "/v1/hosts?metric=cpu_busy_ratio&fields=mean,validity", ()),
)


@program("serve_load")
def main(argv: list[str]) -> int:
    """Measure, print, and report whether the targets are met."""
    given = _parse(argv)
    needs.require(needs.tool("wrk", "wrk"))
    figures = measure(given)
    wrong = [f"{name}: {load['failed']} answers failed" for name, load in figures["loads"].items() if load["failed"]]
    document = outcome.document("serve_load", argv, wrong, figures, _missed(figures["loads"]["hot"]))
    return outcome.conclude(document, given, _format)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """One run on fresh shards. Raises ShardpulseError if a part does not start, or ends."""
    options = Options(hosts=given.hosts, entities=given.entities, metrics=given.metrics, warmup=given.warm_up)
    with tempfile.TemporaryDirectory(prefix="shardpulse-serve-") as name:
        directory = Path(name)
        with pipeline.running(options, directory) as parts:
            hot = max(1, given.hosts // 20)
            with host_figures(parts.shards.addresses, given.hosts, hot, options.seed):
                parts.tell("start")
                with serving(parts.shards.addresses, directory, _last_core()) as service:
                    parts.run(given.warm_up)
                    service.wait_for(given.hosts, hot)
                    return _loads(parts, service, given)


def _loads(parts: pipeline.Pipeline, service: Service, given: argparse.Namespace) -> dict[str, Any]:
    roles = {**parts.roles, "service": [service.pid]}
    before, mark = usage.read(roles), parts.mark()
    time.sleep(min(5.0, float(given.seconds)))
    idle = usage.cores(before, usage.read(roles))["service"]
    found = {}
    for name, path, headers in REQUESTS:
        began = usage.read(roles)
        load = wrk.run(service.url(path), given.seconds, given.connections, headers)
        cores = usage.cores(began, usage.read(roles))
        found[name] = {**load._asdict(), "cores": {role: round(value, 3) for role, value in cores.items()}}
    body = json.dumps(service.ask("/v1/hot"), separators=(",", ":"))
    with Child("bare server", python("experiments.serve_load.bare")) as bare:
        bare.send({"body": body, "core": _last_core()})
        port = bare.receive(_READY_SECONDS)["port"]
        reference = wrk.run(f"http://127.0.0.1:{port}/", given.seconds, given.connections)
    after = parts.mark()
    seconds = after.usage.at - mark.usage.at
    return {
        "hosts": given.hosts,
        "connections": given.connections,
        "seconds": given.seconds,
        "answer_bytes": len(body),
        "service_cores_without_requests": round(idle, 4),
        "service_memory_bytes": pss_bytes(service.pid),
        "samples_smoothed_per_second": round((after.shards.applied - mark.shards.applied) / seconds),
        "loads": found,
        "bare": reference._asdict(),
    }


def _missed(hot: dict[str, Any]) -> list[str]:
    missed = []
    if hot["requests_per_second"] < _LEAST_RATE:
        missed.append(f"/v1/hot: {hot['requests_per_second']:.0f} requests/s, {_LEAST_RATE:.0f} are asked for")
    if hot["p99"] > _MOST_P99:
        missed.append(f"/v1/hot: p99 {hot['p99']} ms, at most {_MOST_P99} are asked for")
    return missed


def _last_core() -> int:
    return max(os.sched_getaffinity(0))


def _format(document: dict[str, Any]) -> list[str]:
    rows = [
        f"{document['hosts']} hosts, {document['samples_smoothed_per_second']} samples/s smoothed meanwhile; "
        f"the answer of /v1/hot has {document['answer_bytes']} bytes; without requests the service takes "
        f"{document['service_cores_without_requests']:.1%} of a core",
    ]
    for name, load in document["loads"].items():
        rate, cores = f"{load['requests_per_second']:>9.0f} requests/s", f"{load['cores']['service']:.2f} cores"
        rows.append(f"  {name:<10} {rate}   p50 {load['p50']} ms   p99 {load['p99']} ms   {cores}")
    bare = document["bare"]
    rows.append(
        f"  a bare server {bare['requests_per_second']:>5.0f} requests/s   p50 {bare['p50']} ms   p99 {bare['p99']} ms"
    )
    return rows


def _parse(argv: list[str]) -> argparse.Namespace:
    made = outcome.parser(
        "serve_load", _DESCRIPTION, _EXAMPLES, hosts=100, entities=101, metrics=5, seconds=10, warm_up=_WARM_UP
    )
    made.add_argument("--connections", type=int, default=8, metavar="N", help="of wrk (default 8)")
    return made.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
