"""Workload of the emulated data center: hosts, rows, columns, rate, churn.

It has a share of invalid samples as well.

A workload and a seed determine every value, code and membership of every frame, so that
the scalar model can repeat them after the run.
"""

from __future__ import annotations

from typing import NamedTuple

from acquisition.model.identity import host_id
from acquisition.model.metric import Metric, ResourceSet
from probes.metrics import VMS

#: Size of an ordinary value by unit: the pool stays below it, tolerances refer to it.
SCALES: dict[str, float] = {
    "tasks": 32.0,
    "bytes": 4e9,
    "bytes/s": 1e8,
    "1/s": 1e5,
    "ratio": 1.0,
    "cores": 8.0,
    "count": 64.0,
    "ticks": 100.0,
}

#: At least one host per this many frames changes its membership, however short the run.
_MIN_CHURN_FRAMES = 2


class Workload(NamedTuple):
    """``entities`` rows of each frame (the host and its VMs), ``invalid`` the share of samples
    that failed a check, ``churn_per_hour`` the share of the VMs that are replaced in an hour of
    frames one second apart. ``interval`` in seconds. A metric of an entity stays invalid for 1 to ``longest_run``
    frames, each length as often."""

    hosts: int
    entities: int
    metrics: int
    interval: float = 1.0
    seed: int = 1
    invalid: float = 0.01
    churn_per_hour: float = 0.1
    longest_run: int = 1

    @property
    def samples_per_frame(self) -> int:
        """Samples of a frame without missing rows."""
        return self.entities * self.metrics

    @property
    def churn_frames(self) -> int:
        """Frames between two changes of a host's membership; 0: never.

        Never rarer than once per ``hosts`` frames, which is once per interval over all hosts.
        """
        if self.entities < 2 or self.churn_per_hour <= 0:
            return 0
        changes_per_frame = self.churn_per_hour * (self.entities - 1) / 3600.0
        return max(_MIN_CHURN_FRAMES, min(round(1.0 / changes_per_frame), self.hosts))


def host_name(index: int) -> str:
    """Name of an emulated host."""
    return f"host{index:05d}.bench"


def host_number(index: int) -> int:
    """The 64-bit identity of an emulated host."""
    return host_id(host_name(index))


def resource_set(metrics: int) -> ResourceSet:
    """The first ``metrics`` sized columns of the VM table; beyond its end they repeat, numbered."""
    columns: list[Metric] = []
    sized = [metric for metric in VMS.metrics if metric.unit in SCALES]
    for index in range(metrics):
        metric = sized[index % len(sized)]
        copy = index // len(sized)
        columns.append(metric._replace(name=f"{metric.name}_{copy + 1}") if copy else metric)
    return ResourceSet("vms", tuple(columns))


def scale(metric: Metric) -> float:
    """Size of an ordinary value of a metric."""
    return SCALES[metric.unit]
