"""One run: fill the rings, kill the shard, start it again empty, wait until every state is what it was."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acquisition.errors import ShardpulseError, UnavailableError
from acquisition.link.cluster import Cluster, write_layout
from acquisition.shards.launch import Shards, start_shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.block import Block
from acquisition.wire import keys
from acquisition.wire.layout import Layout
from experiments.emulation.workload import Workload, resource_set, scale
from experiments.harness import usage
from experiments.harness.shard_counts import positions
from experiments.processes.control import Child, product, python

#: Of the metric's range: what may differ. Squared range for the variance, range per second for the trend.
ALLOWED = 1e-4
_FILL_SECONDS = 400.0
_BACK_SECONDS = 60.0
_LONGEST = 120.0
_POLL = 0.05


class Task(NamedTuple):
    """``hosts`` of ``entities`` x ``metrics`` at 1 Hz for ``ticks`` seconds; rings hold ``ring_seconds``."""

    hosts: int = 100
    entities: int = 101
    metrics: int = 5
    ticks: int = 900
    ring_seconds: float = 600.0
    tau: float = 50.0
    seed: int = 1

    @property
    def workload(self) -> Workload:
        """What every host makes."""
        return Workload(self.hosts, self.entities, self.metrics, 1.0, self.seed, 0.01, 0.0)


def run(task: Task, directory: Path) -> dict[str, Any]:
    """The figures of one run. Raises ShardpulseError when a part fails, or the shard does not come back."""
    with _parts(task, directory) as (shards, cluster, children):
        generator = children["generator"]
        before = _blocks(cluster)
        accepted = _kill_and_wait(shards, cluster)
        roles = {"shard": shards.pids} | {name: [child.pid] for name, child in children.items()}
        began = usage.read(roles)
        positions = {host: block.position.sequence for host, block in before.items() if block.position}
        refilled, first = _wait(cluster, positions, accepted)
        ended = usage.read(roles)
        after = _blocks(cluster)
        generator.send({"do": "stop"})
        report = generator.receive(30.0)
        differences = _differences(before, after, task)
    return {
        "refilled_seconds": round(refilled - accepted, 3),
        "first_host_seconds": round(first - accepted, 3),
        "cpu_seconds": {role: round(ended.cpu[role] - began.cpu[role], 2) for role in roles},
        "machine_cores_used_by_others": round(usage.cores(began, ended)["others"], 2),
        "frames_sent_again": report["resent_frames"],
        "samples_shed": report["shed_samples"],
        "worst_difference": {name: float(f"{value:.3g}") for name, value in differences.items()},
        "hosts_equal": sum(host in after and after[host].shape == block.shape for host, block in before.items()),
    }


@contextlib.contextmanager
def _parts(task: Task, directory: Path) -> Iterator[tuple[Shards, Cluster, dict[str, Child]]]:
    config = directory / "filter.toml"
    config.write_text(f"[filter]\ntau_seconds = {task.tau}\n")
    with contextlib.ExitStack() as stack:
        shards = stack.enter_context(start_shards(1, directory / "shards"))
        cluster = shards.connect(timeout=5.0)
        stack.callback(cluster.close)
        filter_child = stack.enter_context(Child("filter", product("filter", config, shards.addresses)))
        generator = stack.enter_context(Child("generator", python("experiments.refill.generator")))
        wanted = {"workload": task.workload._asdict(), "shards": [str(address) for address in shards.addresses]}
        rings = directory / "rings"
        rings.mkdir()
        generator.send(wanted | {"ticks": task.ticks, "ring_seconds": task.ring_seconds, "rings": str(rings)})
        generator.receive(_FILL_SECONDS)
        yield shards, cluster, {"filter": filter_child, "generator": generator}


def _kill_and_wait(shards: Shards, cluster: Cluster) -> float:
    """kill -9, start it again at its old place, wait until it accepts a write; when it did."""
    (dead,) = shards.shards
    os.kill(dead.pid, signal.SIGKILL)
    while dead.alive:
        time.sleep(0.01)
    shards.start(dead.address, dead.core, Path(dead.directory))
    deadline = time.monotonic() + _BACK_SECONDS
    while True:
        (shard,) = shards.shards
        if not shard.alive:  # the dying one still had the port
            shards.start(shard.address, shard.core, Path(shard.directory))
        try:
            write_layout(cluster, keys.DEFAULT_PARTITIONS)
            return time.monotonic()
        except ShardpulseError as error:
            if time.monotonic() > deadline:
                raise UnavailableError(f"the shard did not come back: {error}") from error
            time.sleep(0.01)


def _wait(cluster: Cluster, wanted: Mapping[int, int], accepted: float) -> tuple[float, float]:
    """When the last and when the first host's newest frame had been applied again."""
    first = 0.0
    while True:
        done = sum(found.sequence >= wanted[host] for (host, _), found in positions(cluster, Layout()).items())
        now = time.monotonic()
        first = first or (now if done else 0.0)
        if done == len(wanted):
            return now, first
        if now > accepted + _LONGEST:
            raise UnavailableError(f"{done} of {len(wanted)} hosts were refilled after {_LONGEST:g} s")
        time.sleep(_POLL)


def _blocks(cluster: Cluster) -> dict[int, Block]:
    return {block.host_id: block for block in SnapshotReader(cluster).latest().blocks}


def _differences(before: Mapping[int, Block], after: Mapping[int, Block], task: Task) -> dict[str, float]:
    """The largest difference of each figure over all hosts, in units of the metric's range."""
    scales = np.array([scale(metric) for metric in resource_set(task.metrics).metrics])
    worst = {}
    for name, unit in (("mean", scales), ("variance", scales**2), ("trend", scales)):
        found = 0.0
        for host, block in before.items():
            old, new = block.plane(name).astype(float), after[host].plane(name).astype(float)
            if old.shape != new.shape or (np.isnan(old) != np.isnan(new)).any():
                return {"shape": float("inf")}
            found = max(found, float(np.nanmax(np.abs(new - old) / unit)))
        worst[name] = found
    return worst
