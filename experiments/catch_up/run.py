"""One outage: most hosts are cut off for a while and come back at once, the others are watched."""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.link.cluster import Cluster, read_layout
from acquisition.model.metric import resource_set_id
from acquisition.outbox.catch_up import OLD
from acquisition.shards.launch import start_shards
from acquisition.wire import keys, position
from experiments.emulation.workload import Workload, host_number, resource_set
from experiments.harness import balance
from experiments.processes.control import Child, python

_READY_SECONDS = 120.0
_LOOK_SECONDS = 0.2
_CLIENTS_FOR_OTHERS = 256
_CURRENT_SECONDS = 2.0  #: a host whose newest applied sample is younger has caught up


class Plan(NamedTuple):
    """``away`` is the share of the hosts that is cut off for ``outage`` seconds; ``paced``: as the product does."""

    workload: Workload
    outage: float = 60.0
    away: float = 0.8
    before: float = 5.0  #: seconds of ordinary operation that are measured for comparison
    limit: float = 120.0  #: the longest catch-up that is waited for
    watched: int = 32
    paced: bool = True
    shards: int = 0

    @property
    def cut(self) -> int:
        """Hosts that are cut off."""
        return round(self.workload.hosts * self.away)


class Parts(NamedTuple):
    """What runs."""

    cluster: Cluster
    generator: Child
    reader: Child


def run(plan: Plan) -> dict[str, Any]:
    """The figures of one outage on fresh shards. Raises ShardpulseError when a part does not come up or ends."""
    with tempfile.TemporaryDirectory(prefix="shardpulse-outage-") as name, _running(plan, Path(name)) as parts:
        parts.generator.send({"do": "start"})
        time.sleep(1.0 + plan.workload.interval)
        ordinary = _watched(parts, plan.before)
        parts.generator.send({"do": "cut", "hosts": plan.cut})
        time.sleep(plan.outage)
        lags = _lags(parts.cluster, plan)
        parts.reader.send({"do": "begin"})
        parts.generator.send({"do": "heal"})
        seconds = _wait(parts, plan)
        parts.reader.send({"do": "end"})
        during = parts.reader.receive(_READY_SECONDS)
        parts.generator.send({"do": "stop"})
        report = parts.generator.receive(plan.limit + _READY_SECONDS)
        books = balance.balance(parts.cluster, report["samples"])
    return {
        "paced": plan.paced,
        "backlog_seconds": round(min(lags), 3),
        "catch_up_seconds": None if seconds is None else round(seconds, 3),
        "freshness_ms_before": ordinary["freshness_ms"],
        "freshness_ms_during": during["freshness_ms"],
        "readings_during": during["readings"],
        "missed_ticks": report["missed"],
        "generator_lag_ms": round(report["lag_seconds"] * 1000.0, 3),
        "resent_frames": report["resent_frames"],
        "drained": report["drained"],
        **{name: books[name] for name in ("samples_made", "samples_applied", "samples_lost", "samples_duplicated")},
    }


def _watched(parts: Parts, seconds: float) -> dict[str, Any]:
    parts.reader.send({"do": "begin"})
    time.sleep(seconds)
    parts.reader.send({"do": "end"})
    return parts.reader.receive(_READY_SECONDS)


def _wait(parts: Parts, plan: Plan) -> float | None:
    """Seconds until all hosts are current; None when that takes longer than ``limit``."""
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < plan.limit:
        if max(_lags(parts.cluster, plan)) < _CURRENT_SECONDS + plan.workload.interval:
            return elapsed
        parts.generator.check()
        parts.reader.check()
        time.sleep(_LOOK_SECONDS)
    return None


def _lags(cluster: Cluster, plan: Plan) -> list[float]:
    """How far the filter is behind in time, for each host that was cut off."""
    layout = read_layout(cluster)
    number = resource_set_id(resource_set(plan.workload.metrics).name)
    commands = []
    for host in map(host_number, range(plan.cut)):
        key = keys.applied(layout.tag_of(host))
        commands.append((key, ("HGET", key, keys.member(host, number))))
    now = time.time()
    replies = cluster.gather(commands)
    return [now - position.decode(data).wall if isinstance(data, bytes) else now for data in replies]


@contextlib.contextmanager
def _running(plan: Plan, directory: Path) -> Iterator[Parts]:
    with contextlib.ExitStack() as stack:
        clients = str(plan.workload.hosts + _CLIENTS_FOR_OTHERS)
        shards = stack.enter_context(
            start_shards(plan.shards, directory / "shards", directives={"maxclients": clients})
        )
        cluster = shards.connect(timeout=10.0)
        stack.callback(cluster.close)
        addresses = [str(address) for address in shards.addresses]
        config = directory / "filter.toml"
        config.write_text("[filter]\n")
        children = [
            Child("filter", python("experiments.harness.filter_process", str(config), ",".join(addresses))),
            Child("freshness reader", python("experiments.harness.freshness")),
            Child("generator", python("experiments.catch_up.generator")),
        ]
        for child in children:
            stack.callback(child.stop)
        _, reader, generator = children
        generator.send(_generator_task(plan, addresses))
        generator.receive(_READY_SECONDS)
        reader.send(_reader_task(plan, addresses))
        reader.receive(_READY_SECONDS)
        yield Parts(cluster, generator, reader)


def _generator_task(plan: Plan, addresses: list[str]) -> dict[str, Any]:
    held = plan.outage + plan.limit
    return {
        "workload": plan.workload._asdict(),
        "shards": addresses,
        "held_frames": round(held / plan.workload.interval),
        "held_seconds": held,
        "position_interval": 2.0,
        "old_seconds": OLD if plan.paced else None,
        "drain_seconds": plan.limit,
    }


def _reader_task(plan: Plan, addresses: list[str]) -> dict[str, Any]:
    """Watch hosts that are never cut off."""
    others = range(plan.cut, plan.workload.hosts)
    hosts = random.Random(plan.workload.seed).sample(others, min(plan.watched, len(others)))
    return {
        "shards": addresses,
        "hosts": hosts,
        "resource_set": resource_set_id(resource_set(plan.workload.metrics).name),
        "poll_seconds": 0.005,
    }
