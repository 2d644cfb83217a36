"""One outage: most hosts are cut off for a while and come back at once, the others are watched."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.link.cluster import Cluster, read_layout
from acquisition.model.metric import resource_set_id
from acquisition.outbox.catch_up import OLD
from acquisition.wire import keys, position
from experiments.emulation.workload import Workload, host_number, resource_set
from experiments.harness import balance, pipeline
from experiments.harness.options import Options
from experiments.harness.pipeline import Pipeline

_LOOK_SECONDS = 0.2
_CURRENT_SECONDS = 2.0  #: a host whose newest applied sample is younger has caught up


class Trial(NamedTuple):
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

    @property
    def options(self) -> Options:
        """The pipeline of it: outboxes hold all that is made meanwhile; hosts are watched that are never cut off."""
        made = self.workload
        return Options(
            hosts=made.hosts, entities=made.entities, metrics=made.metrics, rate=1.0 / made.interval, seed=made.seed,
            invalid=made.invalid, churn=made.churn_per_hour, shards=self.shards, generators=1, check=0,
            held_seconds=self.outage + self.limit, drain_seconds=self.limit, watched=self.watched,
            watched_from=self.cut, breakable=True, old_seconds=OLD if self.paced else math.inf,
        )  # fmt: skip


def run(trial: Trial) -> dict[str, Any]:
    """The figures of one outage on fresh shards. Raises ShardpulseError when a part does not come up or ends."""
    with (
        tempfile.TemporaryDirectory(prefix="shardpulse-outage-") as name,
        pipeline.running(trial.options, Path(name)) as parts,
    ):
        parts.tell("start")
        parts.run(1.0 + trial.workload.interval)
        parts.measure_freshness()
        parts.run(trial.before)
        ordinary = parts.freshness()
        parts.tell("cut", hosts=trial.cut)
        parts.run(trial.outage)
        lags = _lags(parts.cluster, trial)
        parts.measure_freshness()
        parts.tell("heal")
        seconds = _wait(parts, trial)
        during = parts.freshness()
        (report,) = parts.finish()
        counts = report["counts"]
        books = balance.balance(balance.read(parts.cluster), counts["samples"])
    return {
        "paced": trial.paced,
        "backlog_seconds": round(min(lags), 3),
        "catch_up_seconds": None if seconds is None else round(seconds, 3),
        "freshness_ms_before": ordinary["freshness_ms"],
        "freshness_ms_during": during["freshness_ms"],
        "readings_during": during["readings"],
        "missed_ticks": counts["missed"],
        "generator_lag_ms": round(counts["lag_seconds"] * 1000.0, 3),
        "resent_frames": report["writers"]["resent_frames"],
        "drained": report["drained"],
        **{name: books[name] for name in ("samples_made", "samples_applied", "samples_lost", "samples_duplicated")},
    }


def _wait(parts: Pipeline, trial: Trial) -> float | None:
    """Seconds until all hosts are current; None when that takes longer than ``limit``."""
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < trial.limit:
        if max(_lags(parts.cluster, trial)) < _CURRENT_SECONDS + trial.workload.interval:
            return elapsed
        parts.run(_LOOK_SECONDS)
    return None


def _lags(cluster: Cluster, trial: Trial) -> list[float]:
    """How far the filter is behind in time, for each host that was cut off."""
    layout = read_layout(cluster)
    number = resource_set_id(resource_set(trial.workload.metrics).name)
    commands = []
    for host in map(host_number, range(trial.cut)):
        key = keys.applied(layout.tag_of(host))
        commands.append((key, ("HGET", key, keys.member(host, number))))
    now = time.time()
    replies = cluster.gather(commands)
    return [now - position.decode(data).wall if isinstance(data, bytes) else now for data in replies]
